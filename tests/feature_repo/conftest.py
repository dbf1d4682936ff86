import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import FeatureColumns, describe
from feature_repo.names import REDIS_VARIABLE
from feature_repo.store import create

NOON = pd.Timestamp("2026-03-02T12:00:00.123457Z")
WIDTH = 8


@pytest.fixture
def account() -> pd.DataFrame:
    """Two snapshots of five customers and three merchants; a3 is on both sides."""
    random = np.random.default_rng(0)
    rows = [
        {
            "account_id": name,
            "side": side,
            "snapshot_ts": NOON + pd.Timedelta(days=day),
            "x_spend": random.normal() if side == "customer" else np.nan,
            "x_share_y": random.normal(),
            "c_city": random.choice(["Ulm", "Köln"]),
        }
        for side, names in (("customer", ("a0", "a1", "a2", "a3", "a4")), ("merchant", ("a3", "m0", "m1")))
        for name in names
        for day in (0, 7)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def columns(account: pd.DataFrame) -> FeatureColumns:
    return describe(account, embedding_width=WIDTH, model_versions=["v1"])


@pytest.fixture
def embeddings() -> pd.DataFrame:
    """Embeddings of fifty customers and twenty merchants, computed at microseconds apart."""
    random = np.random.default_rng(1)
    names = [(f"a{k}", "customer") for k in range(50)] + [(f"a{k}", "merchant") for k in range(40, 60)]
    return pd.DataFrame(
        {
            "account_id": [name for name, _ in names],
            "side": [side for _, side in names],
            "computed_at": NOON + pd.to_timedelta(np.arange(len(names)) * 1001, unit="us"),
            "embedding": list(random.normal(size=(len(names), WIDTH)).astype(np.float32)),
        }
    )


class RedisServer:
    """A real Redis on a free port, without persistence."""

    def __init__(self, folder: Path, binary: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._folder, self._binary = folder, binary
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.stop()
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)


@pytest.fixture
def redis_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str], str]) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, tool("redis-server"))
    monkeypatch.setenv(REDIS_VARIABLE, server.address)
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[FeatureColumns], Any]:
    """Creates the same store with either online store behind it."""
    if request.param == "redis":
        request.getfixturevalue("redis_server")
    return lambda columns: create(tmp_path / "features", columns, online=request.param)
