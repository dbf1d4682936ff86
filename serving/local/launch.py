"""Start and end of predictor, ledger and console on one machine."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from operations.common.workspace import LIFT, POPULATION, PRICES, SERVED, read_campaign
from shadowprice.errors import Unavailable
from shadowprice.lifeline import Child

HOST = "127.0.0.1"
LEDGER = "ledger.db"
TAIL_LINES = 30
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Paths that the two services of a campaign read and write, and those of their logs.

    served_dir is for the decision log, logs_dir for what the processes print. window is the predictor's setting:
    off, since campaigns of data sets are replayed after their end.
    """

    campaign_file: Path
    model_dir: Path
    features_dir: Path
    prices_dir: Path
    ledger_db: Path
    logs_dir: Path
    served_dir: Path
    window: Literal["on", "off"] = "off"

    @classmethod
    def of_run(
        cls,
        run: Path,
        campaign_file: Path,
        *,
        ledger: str = LEDGER,
        prices: str = PRICES,
    ) -> Deployment:
        """Return the paths of a run's folder; a replayed day has a ledger and prices of its own."""
        return cls(
            campaign_file=campaign_file,
            model_dir=run / "model",
            features_dir=run / "features",
            prices_dir=run / prices,
            ledger_db=run / ledger,
            logs_dir=run / "logs",
            served_dir=run / SERVED / Path(ledger).stem,
        )


@dataclass(frozen=True)
class Services:
    """Addresses of the running services of a campaign; that of the console is empty where it was not asked for."""

    campaign: str
    predictor_url: str
    ledger_url: str
    console_url: str = ""

    @property
    def metrics_urls(self) -> tuple[str, str]:
        """The metrics pages of predictor and ledger."""
        return f"{self.predictor_url}/metrics", f"{self.ledger_url}/metrics"


class Service:
    """A process of ours that serves on a port, its output in a log file; it ends when this one does.

    port, ready_path   of the service; ``probed`` gives it a port for probes alone, which is asked for readiness
    host, launcher  address it listens on, and what its command is put behind, where that is not this machine's own
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        port: int,
        ready_path: str,
        log: Path,
        *,
        host: str = HOST,
        launcher: Sequence[str] = (),
        probed: bool = False,
    ) -> None:
        self.name = name
        self.url = f"http://{host}:{port}"
        self.probe_url = self.url
        self._ready_url = self.url + ready_path
        if probed:
            probe_port = free_port()
            command = [*command, "--probe-port", str(probe_port)]
            self.probe_url = f"http://{host}:{probe_port}"
            self._ready_url = self.probe_url + "/readyz"
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # The log goes on from earlier starts, whose lines would hide the reason of this one's end.
        self._begin = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.process = Child(
                [*launcher, sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self, timeout: float) -> None:
        """Return when the service is ready.

        Raises:
            Unavailable: it ended, or is not ready in time; the message ends with the end of its log.
        """
        deadline = time.monotonic() + timeout
        while not self.ready():
            status = self.process.poll()
            if status is not None:
                raise Unavailable(
                    f"the {self.name} ended with status {status}; its log {self._log} says:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the {self.name} is not ready after {timeout:.0f} s; its log {self._log} says:\n{self.tail()}"
                )
            time.sleep(POLL_SECONDS)

    def ready(self) -> bool:
        """Return whether its readiness endpoint says so."""
        try:
            with urllib.request.urlopen(self._ready_url, timeout=5.0) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def tail(self) -> str:
        """The last lines that this process wrote to its log."""
        lines = self._log.read_bytes()[self._begin :].decode(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:]) or "(nothing)"

    def stop(self) -> None:
        """End the process: by a signal, and after ten seconds by force. Returns when it has ended."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_ledger(deployment: Deployment, port: int, *, host: str = HOST, launcher: Sequence[str] = ()) -> Service:
    """Start the ledger, by ``launcher`` on another host where given; it is not yet ready."""
    command = [
        "serving.ledger",
        *("--db", str(deployment.ledger_db)),
        *("--witness", f"{deployment.ledger_db}.witness"),
        *("--campaign-file", str(deployment.campaign_file)),
        *("--log-dir", str(deployment.served_dir)),
        *("--host", host, "--port", str(port)),
    ]
    log = deployment.logs_dir / "ledger.log"
    return Service("ledger", command, port, "/readyz", log, host=host, launcher=launcher, probed=True)


def start_predictor(deployment: Deployment, port: int, ledger_url: str) -> Service:
    """Start the predictor; it is not yet ready."""
    command = [
        "serving.predictor",
        *("--campaign-file", str(deployment.campaign_file)),
        *("--model-dir", str(deployment.model_dir)),
        *("--features-dir", str(deployment.features_dir)),
        *("--prices-dir", str(deployment.prices_dir)),
        *("--ledger-url", ledger_url),
        *("--window", deployment.window),
        *("--host", HOST, "--http-port", str(port)),
    ]
    return Service("predictor", command, port, "/v2/health/ready", deployment.logs_dir / "predictor.log", probed=True)


def start_console(deployment: Deployment, port: int, ledger_url: str) -> Service:
    """Start the console; it is not yet ready."""
    command = [
        "serving.console",
        *("--campaign-file", str(deployment.campaign_file)),
        *("--prices-dir", str(deployment.prices_dir)),
        *("--log-dir", str(deployment.served_dir)),
        *("--ledger-url", ledger_url),
        *("--lift-file", str(deployment.model_dir.parent / LIFT)),
        *("--host", HOST, "--port", str(port)),
    ]
    workspace = deployment.model_dir.parent
    if (workspace / POPULATION).is_dir():
        command += ["--workspace", str(workspace)]
    return Service("console", command, port, "/readyz", deployment.logs_dir / "console.log", probed=True)


@contextmanager
def launch(
    deployment: Deployment,
    *,
    predictor_port: int | None = None,
    ledger_port: int | None = None,
    console_port: int | None = None,
    timeout: float = 120.0,
) -> Iterator[Services]:
    """Run predictor and ledger until the context ends, however it ends; both are ready when it begins.

    Args:
        deployment: what they read and write.
        predictor_port, ledger_port: where they listen; free ports when not given.
        console_port: where the console listens; none is started when not given.
        timeout: seconds to wait for all to be ready.

    Raises:
        Unavailable: a port is taken, or one ended or is not ready in time; its log's end is in the message.
    """
    campaign = read_campaign(deployment.campaign_file).name
    for port in filter(None, (predictor_port, ledger_port, console_port)):
        _refuse_taken(port)
    with ExitStack() as running:
        ledger = start_ledger(deployment, ledger_port or free_port())
        running.callback(ledger.stop)
        predictor = start_predictor(deployment, predictor_port or free_port(), ledger.url)
        running.callback(predictor.stop)
        started = [ledger, predictor]
        if console_port is not None:
            started.append(start_console(deployment, console_port, ledger.url))
            running.callback(started[-1].stop)
        deadline = time.monotonic() + timeout
        for service in started:
            service.wait_ready(max(0.0, deadline - time.monotonic()))
        yield Services(campaign, predictor.url, ledger.url, started[-1].url if console_port is not None else "")


def _refuse_taken(port: int) -> None:
    """Raise :class:`Unavailable` where a program listens on a port, whose answers would pass for those of ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            mend = "stop the program that listens there or choose another port"
            raise Unavailable(f"port {port} cannot be used: {error.strerror}; {mend}") from error


def free_port() -> int:
    """Return the first of four successive ports of this machine that nothing listens on now.

    They lie below those that the system gives to callers, so none of them is taken by a call meanwhile.
    """
    while True:
        first = 15_000 + secrets.randbelow(16_000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + 4):
                    stack.enter_context(socket.socket()).bind((HOST, port))
            except OSError:
                continue
        return first
