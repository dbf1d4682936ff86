"""``shadowprice doctor`` names each planted fault, and none of a healthy workspace."""

import json
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest

import cli.main as command
from benchmarks.faults.redis_server import RedisServer
from cli.doctor.bounds import bounds
from cli.doctor.command import CHECKS, examine
from cli.doctor.finding import Target
from operations.common.workspace import read_campaign
from serving.http import limits
from shadowprice.limits import Rule
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.price_store import PriceStore
from shadowprice.responses.layers.heads import FILE

NOW = datetime.now(UTC)


@contextmanager
def service(status: int = 200, ahead: float = 0.0) -> Iterator[str]:
    """A service on this machine whose clock is ``ahead`` seconds."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or datetime.now(UTC).timestamp()) + ahead)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def faults(target: Target) -> dict[str, str]:
    """Check → sentences of its faults."""
    found = [each for each in examine(target) if not each.note]
    return {each.check: " ".join(other.sentence for other in found if other.check == each.check) for each in found}


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def in_ledger(place: Path, key: str, value: str) -> None:
    with closing(sqlite3.connect(place / "ledger.db")) as database, database:
        database.execute("UPDATE about SET value = ? WHERE key = ?", (value, key))


def republish(place: Path, **changes: object) -> None:
    store = PriceStore(place / "prices")
    published = store.read("spring", 1)
    for path in (place / "prices").rglob("*.json"):
        path.unlink()
    store.publish(replace(published, **changes).sealed())  # type: ignore[arg-type]


def place_campaign(place: Path, **changes: object) -> None:
    campaign = replace(read_campaign(place), **changes)  # type: ignore[arg-type]
    (place / "campaign.json").write_text(json.dumps(campaign.to_dict()))


def with_rule(place: Path, expression: str) -> None:
    frame = pd.DataFrame({"account_id": ["a"], "c_kind": pd.Series([None], dtype="string")})
    frame.to_parquet(place / columns_file("customer"))
    place_campaign(place, rules=(Rule(name="r", expression=expression),))


@dataclass(frozen=True)
class Plant:
    """A fault that is planted in a healthy workspace, and the check and the words that name it."""

    plant: Callable[[Path], object]
    check: str
    fault: str
    mend: str


IN_WORKSPACE = {
    "no campaign": Plant(lambda w: (w / "campaign.json").unlink(), "campaign", "cannot be read", "job featurize"),
    "past window": Plant(
        lambda w: place_campaign(w, starts_at=NOW - timedelta(days=9)), "campaign", "ended at", "move starts_at"
    ),
    "unknown column": Plant(
        lambda w: with_rule(w, 'account.c_town == "bonn"'), "columns", "have no column 'c_town'", "limits and rules"
    ),
    "column of one side": Plant(
        lambda w: with_rule(w, 'account.c_kind == "bank"'),
        "columns",
        "rules.r.expression: account.c_kind has no value for any request of side 'customer'",
        "limits and rules",
    ),
    "changed model": Plant(lambda w: (w / "model" / FILE).write_bytes(b"x"), "model", "is not the file", "register"),
    "no model": Plant(lambda w: (w / "model" / "model.json").unlink(), "model", "no model bundle", "register"),
    "no price": Plant(
        lambda w: (w / "prices" / "spring" / "0000000001.json").unlink(), "price", "has no price", "publish a price"
    ),
    "price of another campaign": Plant(
        lambda w: (w / "prices" / "spring").rename(w / "prices" / "autumn"), "price", "only of autumn", "this campaign"
    ),
    "damaged price": Plant(
        lambda w: rewrite(w / "prices" / "spring" / "0000000001.json", "0.1", "0.2"), "price", "checksum", "new price"
    ),
    "price of another model": Plant(
        lambda w: republish(w, model_version="m0"), "price", "of model m0, and m1", "served model"
    ),
    "stale price": Plant(
        lambda w: republish(w, solved_at=NOW - timedelta(hours=1), expires_at=NOW - timedelta(minutes=1)),
        "price",
        "stale since",
        "re-solve",
    ),
    "no feature store": Plant(
        lambda w: (w / "features" / "feature_store.yaml").unlink(), "features", "cannot be read", "featurize"
    ),
    "features of another campaign": Plant(
        lambda w: rewrite(w / "features" / "feature_store.yaml", "shadowprice_spring", "shadowprice_autumn"),
        "features",
        "shadowprice_autumn",
        "for this campaign",
    ),
    "other schema": Plant(lambda w: in_ledger(w, "schema", "99"), "ledger_file", "schema 99", "another file"),
    "other ledger": Plant(lambda w: in_ledger(w, "campaign", "autumn"), "ledger_file", "of campaign autumn", "another"),
    "damaged ledger": Plant(
        lambda w: (w / "ledger.db").write_bytes(b"no database" * 100), "ledger_file", "cannot be read", "backup"
    ),
}


def test_the_ended_window_of_a_replay_on_one_machine_is_a_note(workspace: Path) -> None:
    place_campaign(workspace, starts_at=NOW - timedelta(days=9))
    (workspace / "pipeline").mkdir()
    assert faults(Target(place=workspace)) == {}
    assert [each.check for each in examine(Target(place=workspace)) if each.note and each.check == "campaign"]


@pytest.mark.parametrize("name", IN_WORKSPACE)
def test_a_fault_of_the_workspace_is_the_only_one_named(name: str, workspace: Path) -> None:
    planted = IN_WORKSPACE[name]
    assert faults(Target(place=workspace)) == {}
    planted.plant(workspace)
    found = faults(Target(place=workspace))
    assert list(found) == [planted.check]
    assert planted.fault in found[planted.check]
    assert planted.mend in found[planted.check]


def test_faults_of_the_machine_are_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHADOWPRICE_KERNEL", "numpy")
    monkeypatch.setitem(sys.modules, "ray", None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = faults(Target(place=workspace, python=(3, 9), ports=(port, closed_port()), free_gb=1e9))
    assert list(found) == ["python", "kernel", "packages", "disk", "ports"]
    assert "Python 3.9" in found["python"]
    assert "python" in faults(Target(python=(3, 12)))
    assert "unset the variable" in found["kernel"]
    assert found["packages"] == "ray is not installed; run pip install 'shadowprice[ray]'."
    assert "remove old runs" in found["disk"]
    assert found["ports"].startswith(f"port {port} cannot be used")
    assert found["ports"].count("cannot be used") == 1


def test_missing_programs_of_a_cluster_are_notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [each.fault.split()[0] for each in examine(Target()) if each.note] == ["helm", "kubectl"]


def test_faults_of_services_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = f"127.0.0.1:{closed_port()}"
    with service(ahead=600) as late, service(status=503) as busy, service() as well:
        found = faults(Target(predictor_url=late, ledger_url=busy, prometheus_url=f"http://{silent}", redis=silent))
        assert faults(Target(predictor_url=well, ledger_url=well, prometheus_url=well)) == {}
        assert "does not answer as Redis" in faults(Target(redis=well.removeprefix("http://")))["redis"]
    assert list(found) == ["predictor", "ledger", "prometheus", "redis"]
    assert "s apart; synchronise both clocks" in found["predictor"]
    assert "not ready: status 503" in found["ledger"]
    assert "does not answer" in found["prometheus"]
    assert "start Redis" in found["redis"]


def test_a_missing_input_file_of_a_mapping_is_named(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[2] / "docs" / "examples" / "mapping"
    (tmp_path / "mapping.yaml").write_text((examples / "mapping.yaml").read_text())
    assert faults(Target(place=examples / "mapping.yaml")) == {}
    assert "the input file gutscheine.csv is missing" in faults(Target(place=tmp_path / "mapping.yaml"))["mapping"]


def test_faults_of_a_token_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    assert "is missing" in faults(Target(token_file=path))["tokens"]
    path.write_text("a-secret-of-enough-length")
    path.chmod(0o644)
    assert f"run chmod 600 {path}" in faults(Target(token_file=path))["tokens"]
    path.chmod(0o600)
    assert faults(Target(token_file=path)) == {}
    path.write_text("short")
    assert "at least 16" in faults(Target(token_file=path))["tokens"]


def test_the_command_prints_json_and_exits_with_1(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["doctor", str(workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["healthy"]
    (workspace / "campaign.json").write_text("{")
    assert command.main(["doctor", str(workspace)]) == 1
    assert "fault (campaign):" in capsys.readouterr().out
    assert command.main(["doctor", str(workspace), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["healthy"]
    assert "campaign" in {each["check"] for each in found["findings"]}
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)


def test_a_port_that_no_machine_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["doctor", "--port", "99999"]) == 2
    assert "65535" in capsys.readouterr().err


def test_a_redis_without_a_replica_is_noted_and_is_no_fault(tool, tmp_path):
    tool("redis-server")
    server = RedisServer(tmp_path / "redis")
    server.start()
    try:
        [noted] = [found for found in examine(Target(redis=server.url)) if found.check == "redis"]
    finally:
        server.kill()
    assert noted.note
    assert "has no replica" in noted.fault


def test_every_bound_of_the_services_is_printed_with_its_number_and_its_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["doctor", "--limits"]) == 0
    table = capsys.readouterr().out
    assert "MAX_BODY_BYTES                   4,194,304  Bytes of a request's body.\n" in table
    numbers = {name for name, value in vars(limits).items() if name.isupper() and not isinstance(value, str)}
    # Two are imported, and stand under another name.
    imported = {"MOST_CHARACTERS", "LONGEST_BASIS"}
    assert {each.name for each in bounds() if each.meaning.endswith(".")} == numbers - imported
