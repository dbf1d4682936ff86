"""A ledger process, what it depends on, and everything that can be done to them."""

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.faults.framing import Attack
from benchmarks.faults.hostile import ATTACKS, Attackers
from benchmarks.faults.proxy import Proxy
from benchmarks.faults.redis_server import RedisServer
from benchmarks.faults.wall_clock import WallClock
from serving.ledger.opening import open_store
from serving.ledger.store import Store
from serving.local.launch import HOST, Service, free_port
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.limits import Cap, GroupBudget, Limits

LEVELS = (0, 50, 130)
MOST_UNITS = 3
DISK_BYTES = 128 * 2**20
READY_SECONDS = 180.0
LAG_SECONDS = 0.5
AHEAD_SECONDS = 4 * 86_400
"""Jump of a clock in seconds, longer than the lifetime of an authorization."""


def limits_of(limit: int) -> Limits:
    """Six budgets and three caps that overlap; some are used up before the main budget of ``limit`` is.

    Two sums of a second outcome count the decisions by level, and stop nothing.
    """
    budgets = (
        GroupBudget(name="customers", limit=limit // 4, side="customer"),
        GroupBudget(name="merchants", limit=limit // 2, side="merchant"),
        GroupBudget(name="day", limit=limit, period="day"),
        GroupBudget(name="hour", limit=limit, period="hour"),
        GroupBudget(name="day-of-customers", limit=limit // 2, period="day", side="customer"),
        GroupBudget(name="arm", limit=limit, arm="unassigned"),
        GroupBudget(name="calls", limit=9.0, period="hour", outcome="x_calls"),
        GroupBudget(name="calls-of-customers", limit=9.0, side="customer", outcome="x_calls"),
    )
    caps = (
        Cap(name="account", per="account", amount=limit // 3),
        Cap(name="often", per="account", count=60, period="day"),
        Cap(name="merchant", per="account", amount=limit // 20, side="merchant"),
    )
    return Limits(budgets=budgets, caps=caps)


class Stage:
    """The ledger of one campaign, reached through a network that can fail.

    kind   ``sqlite``, or ``redis``: then the ledger reaches Redis through such a network too
    disk   folder of ledger and log; with a size of its own, where ``mounted``, so that it can be filled
    """

    def __init__(self, folder: Path, kind: str, limit: int, disk: Path, mounted: bool) -> None:
        self.kind, self.mounted, self.disk = kind, mounted, disk
        self.campaign = Campaign(
            name="faults",
            sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=LEVELS, most_units=MOST_UNITS)},
            budget=Budget(limit=limit),
            starts_at=datetime(2024, 5, 1, tzinfo=UTC),
            limits=limits_of(limit),
        )
        self._folder = folder
        self._campaign_file = folder / "campaign.json"
        self._campaign_file.write_text(json.dumps(self.campaign.to_dict()))
        self.clock, self.store_clock = WallClock(folder / "clock"), WallClock(folder / "store-clock")
        self.redis: RedisServer | None = None
        self.store_network: Proxy | None = None
        if kind == "redis":
            self.redis = RedisServer(disk / "redis", launcher=self.store_clock.launcher)
            self.redis.start()
            self.store_network = Proxy(self.redis.port)
        self._port = free_port()
        self.network = Proxy(self._port)
        self.url = f"http://{HOST}:{self.network.port}"
        self.ledger = self._start()
        self.ledger.wait_ready(READY_SECONDS)

    @property
    def log_dir(self) -> Path:
        return self.disk / "log"

    def open(self) -> Store:
        """Store of the ledger, for reading when the ledger is gone."""
        return open_store(self.campaign, self.disk / "ledger.db", self.redis.url if self.redis else "")

    def faults(self) -> dict[str, Callable[[float], None]]:
        """Faults that this machine can inject, by name; each ends before it returns, after about the seconds given."""
        found: dict[str, Callable[[float], None]] = {
            "ledger killed": self._kill_ledger,
            "network cut": lambda seconds: self._network(self.network, self.network.cut, seconds),
            "network silent": lambda seconds: self._network(self.network, self.network.silence, seconds),
            "network slow": lambda seconds: self._network(self.network, lambda: self.network.throttle(2000), seconds),
            "clock ahead": lambda seconds: self._jump(self.clock, seconds),
        }
        found |= {name: partial(self._attacked, attack) for name, attack in ATTACKS.items()}
        if self.redis is not None and self.store_network is not None:
            store = self.store_network
            found |= {
                "redis killed": self._kill_redis,
                "lagging replica promoted": self._promote_lagging,
                "store cut": lambda seconds: self._network(store, store.cut, seconds),
                "store silent": lambda seconds: self._network(store, store.silence, seconds),
                "store's clock ahead": lambda seconds: self._jump(self.store_clock, seconds),
                "store slow": lambda seconds: self._network(store, lambda: store.throttle(4000), seconds),
            }
        found["disk full"] = self._fill_disk if self.mounted else self._forbid_growth
        return found

    def stop_ledger(self) -> None:
        self.ledger.stop()

    def close(self) -> None:
        self.ledger.stop()
        self.network.close()
        if self.store_network is not None:
            self.store_network.close()
        if self.redis is not None:
            self.redis.stop()

    def _start(self) -> Service:
        command = [
            "serving.ledger",
            *("--campaign-file", str(self._campaign_file), "--db", str(self.disk / "ledger.db")),
            *("--host", HOST, "--port", str(self._port)),
            *("--log-dir", str(self.log_dir), "--log-seconds", "0.5"),
        ]
        if self.store_network is not None:
            command += ["--redis", f"redis://{HOST}:{self.store_network.port}/0"]
            command += ["--witness", str(self.disk / "ledger.witness")]
        log = self._folder / "ledger.log"
        return Service("ledger", command, self._port, "/readyz", log, launcher=self.clock.launcher)

    def _kill_ledger(self, seconds: float) -> None:
        self.ledger.process.kill()
        self.ledger.process.wait()
        time.sleep(seconds)
        self.ledger = self._start()
        self.ledger.wait_ready(READY_SECONDS)

    def _kill_redis(self, seconds: float) -> None:
        assert self.redis is not None
        self.redis.kill()
        time.sleep(seconds)
        self.redis.start()

    def _promote_lagging(self, seconds: float) -> None:
        """Let a copy that lags by at least ``LAG_SECONDS`` answer in place of Redis, and put Redis back.

        The ledger refuses a store that went back until it is restarted on one that did not.
        """
        assert self.redis is not None
        kept = self.redis.folder
        # Not on the small disk, which has no room for copies.
        aside, lagging = self._folder / "aside", self._folder / "lagging"
        shutil.copytree(kept, lagging)
        time.sleep(max(LAG_SECONDS, seconds))
        self.redis.kill()
        shutil.copytree(kept, aside)
        for copy in (lagging, aside):
            shutil.rmtree(kept)
            shutil.move(copy, kept)
            self.redis.start()
            if copy is lagging:
                time.sleep(seconds)
                self.redis.kill()
        self._kill_ledger(seconds)

    def _jump(self, clock: WallClock, seconds: float) -> None:
        clock.set(AHEAD_SECONDS)
        time.sleep(seconds)
        clock.set(0)

    def _attacked(self, attack: Attack, seconds: float) -> None:
        attackers = Attackers(attack, self.url, self.campaign.name)
        time.sleep(seconds)
        attackers.stop()

    def _network(self, network: Proxy, fail: Callable[[], None], seconds: float) -> None:
        fail()
        time.sleep(seconds)
        network.heal()

    def _fill_disk(self, seconds: float) -> None:
        filler = self.disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError:
            pass
        time.sleep(seconds)
        filler.unlink()
        self._revive_redis()

    def _forbid_growth(self, seconds: float) -> None:
        """Imitate a full disk without mounting one: the process may write no file."""
        process = self.ledger.process if self.redis is None else self.redis.process
        assert process is not None
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
        time.sleep(seconds)
        if process.poll() is None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        self._revive_redis()

    def _revive_redis(self) -> None:
        # Without its file Redis keeps nothing: it ends, and is started again by whoever runs it. One that could not
        # write ends before it answers anybody else.
        while self.redis is not None and not self.redis.answers():
            if self.redis.ended():
                self.redis.start()
            time.sleep(0.01)


@contextmanager
def staged(folder: Path, kind: str, limit: int) -> Iterator[Stage]:
    """A stage whose disk is a small file system of its own where this process may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    with ExitStack() as ending:
        mounted = _mount(disk)
        if mounted:
            ending.callback(subprocess.run, ["umount", "-l", str(disk)], check=True)
        stage = Stage(folder, kind, limit, disk, mounted)
        ending.callback(stage.close)
        yield stage


def _mount(disk: Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
