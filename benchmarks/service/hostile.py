"""Honest callers beside hostile ones: ``python -m benchmarks hostile``.

For each attack the honest load runs while a bystander is attacked and while a service is, in turns. The attackers run
on the same machine at the lowest priority, and take the same from it in both: it is the services that are measured.
Callers of the console load pages, all others ask the predictor. Probes are sent to the attacked service ten times a
second, and the memory of each process is compared with the limit in the chart.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import yaml

from benchmarks.cells import Cells
from benchmarks.faults.framing import WITHOUT_TOKEN
from benchmarks.faults.hostile import TOKEN_FILE
from benchmarks.faults.moves import attack_moves
from benchmarks.service.deployment import Running, cpu_seconds, port_of, resident_mb, serving
from benchmarks.service.load import generate
from serving.local.launch import Service, free_port
from shadowprice.limits import Rule

ACCOUNTS = 2000
CONNECTIONS = {"predictor": 8, "ledger": 8, "console": 2}
SETTLE_SECONDS = 2.0
ROUND_SECONDS = 3.0
"""Time of an attack on moves."""
SHARE, SLOWER, PROBE_SECONDS = 0.8, 3.0, 0.3
"""Goals: share of the throughput that is kept at least, times of p99, and the longest answer of a probe."""
TOKEN = "a-token-of-the-benchmark"
RULES = (Rule(name="basket", expression="context.x_basket * 2.0 > 1000.0"),)
CHART = Path(__file__).parents[2] / "helm/shadowprice/values.yaml"
FRAMING = [name for name in WITHOUT_TOKEN if name != "gRPC messages"]
ATTACKS = [
    *((name, service) for service in CONNECTIONS for name in FRAMING),
    ("gRPC messages", "predictor"),
    ("half-open connections", "ledger"),
    ("half-open connections", "predictor"),
    ("hostile bodies", "ledger"),
    ("hostile bodies", "predictor"),
    ("conflicting requests", "predictor"),
    ("whole numbers", "predictor"),
]
"""Attack, and the service that it is aimed at; the last four have a token."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Every attack, or those whose names match ``SHADOWPRICE_ATTACK``; returns medians over the turns.

    Attacks on moves of budget are not timed: they must lose no money.
    """
    seconds, turns = (1.0, 1) if quick else (1.5, 5)
    wanted = os.environ.get("SHADOWPRICE_ATTACK", "")
    found: dict[str, Any] = cells.of(f"{seconds}-{turns}-{wanted}", partial(measured, seconds, turns, wanted))
    for kind in ("sqlite", "redis"):
        if re.search(wanted, name := f"moves at the ledger in {kind}"):
            counts = cells.of(f"{name}-{turns}", partial(moved, kind, 2 * turns))
            print(
                f"{name}: no money twice, none lost; " + ", ".join(f"{count} {what}" for what, count in counts.items())
            )
    return found


def moved(kind: str, rounds: int) -> dict[str, int]:
    """Attack moves of budget, each round with a fault, and return what was counted."""
    with tempfile.TemporaryDirectory() as folder:
        return dict(attack_moves(Path(folder), kind, rounds, ROUND_SECONDS).most_common())


def measured(seconds: float, turns: int, wanted: str = "") -> dict[str, Any]:
    """Ratios under each attack to that on a bystander, and the largest memory and time of a probe."""
    found: dict[str, Any] = {}
    limits = memory_limits()
    serial = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "token").write_text(TOKEN)
        variables = (TOKEN_FILE, "SHADOWPRICE_LEDGER_TOKEN_FILE", "SHADOWPRICE_CONSOLE_TOKEN_FILE")
        settings = dict.fromkeys(variables, str(folder / "token"))
        asked = partial(serving, folder, ACCOUNTS, settings, with_trivial=False, with_console=True)
        with asked(context=True, rules=RULES) as running:

            def honest(service: str, attacked: AbstractContextManager[Any] | None = None) -> dict[str, Any]:
                nonlocal serial
                asked = running.console if service == "console" else running.predictor
                assert asked is not None
                with ThreadPoolExecutor(1) as pool:
                    load = pool.submit(
                        generate, port=port_of(asked), protocol="page" if service == "console" else "v1", batch=1,
                        connections=CONNECTIONS[service], seconds=seconds, settle=SETTLE_SECONDS, serial=serial,
                        accounts=ACCOUNTS, token=TOKEN, context=True,
                    )  # fmt: skip
                    # The callers are connected and were answered before an attack begins.
                    time.sleep(SETTLE_SECONDS / 2)
                    with attacked or nullcontext():
                        time.sleep(SETTLE_SECONDS / 2)
                        before = _cpu(running)
                        each = load.result()
                        cpu = _cpu(running) - before
                serial = each["serial"]
                return {**each, "cpu": cpu / max(1, each["calls"])}

            for service in CONNECTIONS:
                honest(service)
            for attack, service in ATTACKS:
                if re.search(wanted, f"{attack} at the {service}"):
                    found[f"{attack} at the {service}"] = _paired(running, attack, service, honest, turns, limits)
                    print(_line(attack, service, found[f"{attack} at the {service}"]), flush=True)
    return found


def memory_limits() -> dict[str, float]:
    """MB of memory that the chart allows each service by default."""
    values = yaml.safe_load(CHART.read_text())
    given = {name: values[name]["resources"]["limits"]["memory"] for name in CONNECTIONS}
    return {name: float(text.removesuffix("Gi")) * 1024 for name, text in given.items()}


def _paired(
    running: Running,
    attack: str,
    service: str,
    honest: Callable[..., dict[str, Any]],
    turns: int,
    limits: dict[str, float],
) -> dict[str, Any]:
    pairs, watched = [], Watched(running, service)
    port, kind, url = free_port(), "http", services(running)[service].url
    if attack == "gRPC messages":
        kind, url = "grpc", f"http://127.0.0.1:{running.predictor_grpc}"
    with (
        process("benchmarks.faults.bystander", kind, str(port)),
        attackers(attack, f"http://127.0.0.1:{port}") as beside,
        attackers(attack, url) as under_attack,
    ):
        for _ in range(turns):
            base = honest(service, beside())
            with watched:
                pairs.append((base, honest(service, under_attack())))

    def ratio(figure: str) -> float:
        return float(np.median([under[figure] / base[figure] for base, under in pairs]))

    kept, slower = ratio("per_second"), ratio("p99_ms")
    refused = sum(under["refused"] for _, under in pairs)
    fits = all(watched.memory[name] <= limits[name] for name in limits)
    probed = max(watched.probes) <= PROBE_SECONDS
    return {
        "throughput": kept,
        "p50": ratio("p50_ms"),
        "p99": slower,
        "cpu": ratio("cpu"),
        "refused": refused,
        "probe_seconds": max(watched.probes),
        "memory_mb": watched.memory,
        "load": os.getloadavg()[0],
        "met": kept >= SHARE and slower <= SLOWER and not refused and fits and probed,
    }


def _line(attack: str, service: str, each: dict[str, Any]) -> str:
    memory = " ".join(f"{name} {size:.0f}" for name, size in each["memory_mb"].items())
    name = f"{attack} at the {service}"
    return (
        f"{name:42} throughput {each['throughput']:.2f}, p50 {each['p50']:.2f} and p99 {each['p99']:.2f} times, "
        f"processor time a call {each['cpu']:.2f} times, refused {each['refused']}, "
        f"probe {each['probe_seconds']:.2f} s, MB {memory}, load {each['load']:.1f}: "
        f"{'met' if each['met'] else 'MISSED'}"
    )


class Watched:
    """Probes of a service and memory of all, while the context lasts; a probe that fails counts as 60 s."""

    def __init__(self, running: Running, service: str) -> None:
        self._services = services(running)
        self._url = self._services[service].probe_url + "/healthz"
        self.probes: list[float] = []
        self.memory = dict.fromkeys(self._services, 0.0)

    def __enter__(self) -> None:
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            for name, service in self._services.items():
                self.memory[name] = max(self.memory[name], resident_mb(service))
            started = time.perf_counter()
            try:
                urllib.request.urlopen(self._url, timeout=10).close()
                self.probes.append(time.perf_counter() - started)
            except (OSError, urllib.error.HTTPError):
                self.probes.append(60.0)


def services(running: Running) -> dict[str, Service]:
    assert running.console is not None
    return {"predictor": running.predictor, "ledger": running.ledger, "console": running.console}


def _cpu(running: Running) -> float:
    return sum(map(cpu_seconds, services(running).values()))


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a module that prints a line when it is ready, and end it with the context."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def attackers(attack: str, url: str) -> Iterator[Callable[[], Any]]:
    """Start attackers that stand still; yields a context in which they attack."""
    with process("benchmarks.faults.hostile", attack, url, "spring", "600") as started:

        @contextmanager
        def attacking() -> Iterator[None]:
            started.send_signal(signal.SIGCONT)
            try:
                yield
            finally:
                started.send_signal(signal.SIGSTOP)

        started.send_signal(signal.SIGSTOP)
        yield attacking
    # What is left of the attack is closed before the next one.
    time.sleep(SETTLE_SECONDS)
