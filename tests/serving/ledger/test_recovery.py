"""The commands of docs/how-to/restore.md: a backup under writes, its restoration, and the rest from the log."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import pytest
import redis

from benchmarks.faults.redis_server import RedisServer
from serving.ledger.log import LogWriter
from serving.ledger.opening import open_store
from serving.ledger.sqlite.backup import audit, backup
from serving.ledger.sqlite.database import SCHEMA_VERSION
from serving.recover import recover
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, InvalidInput, InvalidTable
from shadowprice.files import write_whole
from shadowprice.pacing.decision_log.segments import segments
from shadowprice.pacing.decision_log.served import read_log

HOUR = timedelta(hours=1)


@pytest.fixture
def spring(kit, tmp_path):
    """A campaign, and the path of its ledger."""
    campaign = kit.campaign(limit=10**9)
    write_whole(tmp_path / "campaign.json", json.dumps(campaign.to_dict()))
    return campaign, tmp_path / "ledger.db"


@pytest.fixture
def opened(kit, spring):
    """Opens the campaign's sqlite file."""
    made = []

    def opening():
        campaign, path = spring
        made.append(kit.open(campaign, path))
        return made[-1]

    yield opening
    for ledger in made:
        ledger.close()


def run(module, *arguments):
    return subprocess.run([sys.executable, "-m", module, *map(str, arguments)], capture_output=True, text=True)


def some(ledger, kit, prefix):
    """Authorizations that are open, captured, given back, expired, and captured after either."""
    for index in range(12):
        ledger.at += timedelta(seconds=7)
        ledger.authorize(kit.item(f"{prefix}{index}", level=index % 3, account_id=f"a{index}"))
    ledger.settle(kit.event(f"{prefix}1", 50, at=ledger.at), kit.event(f"{prefix}2", 0, at=ledger.at))
    ledger.release(f"{prefix}4")
    ledger.correct(kit.correction(f"{prefix}4", 50, event_id=f"{prefix}4", override=True, at=ledger.at))
    ledger.at += 73 * HOUR
    ledger.sweep()
    ledger.settle(kit.event(f"{prefix}5", 130, at=ledger.at))
    ledger.authorize(kit.item(f"{prefix}last"))


def test_a_backup_under_writes_is_the_ledger_of_one_moment(kit, spring, tmp_path, opened):
    _, path = spring
    ledger = opened()
    stop = Event()
    told = []

    def writing():
        while not stop.is_set():
            name = f"r{len(told)}"
            ledger.authorize(kit.item(name))
            ledger.settle(kit.event(name, 50))
            told.append(name)

    writer = Thread(target=writing)
    writer.start()
    try:
        while len(told) < 50:
            stop.wait(0.01)
        before = len(told)
        copy = tmp_path / "copy.db"
        done = run("serving.ledger.sqlite.backup", path, copy)
        after = len(told) + 1
    finally:
        stop.set()
        writer.join()
    assert done.returncode == 0, done.stderr
    assert before < after
    with closing(sqlite3.connect(copy)) as restored:
        kept = {row[0] for row in restored.execute("SELECT request_id FROM outcome")}
        (spent,) = restored.execute("SELECT SUM(spent) FROM settlement").fetchone()
    assert before <= len(kept) <= after
    assert kept == {f"r{index}" for index in range(len(kept))}
    assert spent == 50 * len(kept)
    assert f"{len(kept)} outcomes, {spent} minor units" in done.stdout
    assert run("serving.ledger.sqlite.backup", path, copy).returncode == 1


def test_a_copy_of_the_file_alone_lacks_what_is_in_the_write_ahead_log(kit, spring, tmp_path, opened):
    _, path = spring
    ledger = opened()
    ledger.authorize(kit.item("r1"))
    (tmp_path / "naive.db").write_bytes(path.read_bytes())
    with closing(sqlite3.connect(tmp_path / "naive.db")) as naive:
        assert naive.execute("SELECT request_id FROM decision").fetchall() == []
    backup(path, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT request_id FROM decision").fetchall() == [("r1",)]


def test_a_restored_backup_and_the_log_are_the_ledger_that_were_lost(kit, spring, tmp_path, opened):
    _, path = spring
    ledger = opened()
    some(ledger, kit, "before")
    backup(path, tmp_path / "copy.db")
    at_backup = asdict(ledger.store.totals())
    some(ledger, kit, "after")
    LogWriter(ledger.store, tmp_path / "log", rows=5).write()
    ledger.release("afterlast")
    lost = asdict(ledger.store.totals())
    decisions, outcomes = ledger.store.decisions_after(0, 1000), ledger.store.outcomes_after(0, 1000)
    corrections = ledger.store.corrections_after(0, 1000)
    at = ledger.at
    ledger.close()
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    (tmp_path / "copy.db").rename(path)

    audit(path)
    again = opened()
    assert asdict(again.store.totals()) == at_backup
    again.close()
    command = ("--campaign-file", tmp_path / "campaign.json", "--db", path, "--log-dir", tmp_path / "log")
    first, second = run("serving.recover", *command), run("serving.recover", *command, "--json")
    assert first.stdout == "recorded again: 13 decisions, 4 outcomes, 1 corrections\n", first.stderr
    assert json.loads(second.stdout) == {"decisions": 0, "outcomes": 0, "corrections": 0}

    audit(path)
    again = opened()
    assert again.store.decisions_after(0, 1000) == decisions
    assert again.store.outcomes_after(0, 1000) == outcomes
    assert again.store.corrections_after(0, 1000) == corrections
    found = asdict(again.store.totals())
    for name in ("decisions", "authorized", "spent", "responses", "outcomes", "late", "corrections", "overridden"):
        assert found[name] == lost[name], name
    # Which were given back (afterlast) or had expired since (beforelast and four) is in no log: they are open.
    assert sum(found["outstanding"].values()) == sum(lost["outstanding"].values()) + 2 * 50 + 2 * 50 + 2 * 130
    again.at = at
    again.at += 72 * HOUR
    assert again.sweep() == 6
    assert again.money() == (0, sum(lost["spent"].values()))
    assert again.settle(kit.event("after1", 50, at=at - 73 * HOUR)) == (0, 1)
    assert LogWriter(again.store, tmp_path / "log").write() == 0
    again.authorize(kit.item("next"))
    assert LogWriter(again.store, tmp_path / "log").write() == 1
    assert list(read_log(tmp_path / "log").decisions["request_id"])[-1] == "next"


def test_ledger_that_were_used_since_they_were_restored_are_not_recovered_over(open_ledger, kit, tmp_path):
    ledger = open_ledger()
    ledger.authorize(kit.item("a"))
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger()
    other.authorize(kit.item("b"))
    with pytest.raises(Conflict, match=r"row 1 of the (books|ledger) is 'b', that of the log 'a'"):
        recover(other.store, other.campaign, read_log(tmp_path / "log"))


def test_a_recovery_opens_only_the_segments_after_the_books(open_ledger, kit, tmp_path):
    """A log of 10⁸ rows does not fit memory; what came after a backup does."""
    ledger = open_ledger()
    writer, other = LogWriter(ledger.store, tmp_path / "log", rows=2), open_ledger()
    for number in range(4):
        ledger.authorize(kit.item(f"r{number}"))
        other.authorize(kit.item(f"r{number}"))
    writer.write()
    ledger.authorize(kit.item("r4"))
    ledger.settle(kit.event("r4", 50))
    writer.write()
    first, second, third = segments(tmp_path / "log", "decisions")
    first.path.write_bytes(b"damaged")
    with pytest.raises(InvalidTable, match=first.path.name):
        read_log(tmp_path / "log")
    log = read_log(tmp_path / "log", {"decisions": 3})
    assert log.decisions["request_id"].tolist() == ["r3", "r4"]
    assert (second.first, third.last) == (3, 5)
    assert recover(other.store, other.campaign, log) == (1, 1, 0)
    assert recover(other.store, other.campaign, log) == (0, 0, 0)
    assert other.store.decisions_after(0, 9) == ledger.store.decisions_after(0, 9)
    # The row that both have is compared.
    wrong = open_ledger()
    wrong.authorize(*(kit.item(name) for name in ("r0", "r1", "r2", "x")))
    with pytest.raises(Conflict, match=r"row 4 of the (books|ledger) is 'x', that of the log 'r3'"):
        recover(wrong.store, wrong.campaign, log)
    short = open_ledger()
    with pytest.raises(Conflict, match="without its first 3 rows"):
        recover(short.store, short.campaign, log)


def test_an_empty_store_of_either_kind_becomes_the_ledger_from_the_log_alone(open_ledger, kit, tmp_path):
    sides = {"customer": Terms(levels=kit.levels["customer"]), "merchant": Terms(levels=(20, 60), most_units=3)}
    ledger = open_ledger(limit=10**9, sides=sides)
    some(ledger, kit, "r")
    ledger.authorize(kit.item("shop", side="merchant"))
    LogWriter(ledger.store, tmp_path / "log").write()
    # What was reserved is in the log: terms that have changed since do not matter.
    other = open_ledger(limit=10**9)
    assert recover(other.store, other.campaign, read_log(tmp_path / "log")) == (14, 4, 1)
    assert other.store.totals().outstanding["merchant"] == 180
    assert other.store.decisions_after(0, 100) == ledger.store.decisions_after(0, 100)
    assert other.store.outcomes_after(0, 100) == ledger.store.outcomes_after(0, 100)
    # Those that had expired are open again, for a whole time to live.
    assert other.money()[0] > ledger.money()[0]
    for each in (ledger, other):
        each.at += 72 * HOUR
        each.sweep()
        assert each.money() == (0, 230)


def test_a_recovery_does_not_order_decisions_outcomes_and_corrections_by_the_wall_clock(open_ledger, kit, tmp_path):
    ledger = open_ledger()
    ledger.wrong = timedelta(days=4)
    ledger.authorize(kit.item("r1"), kit.item("r2", level=2))
    ledger.wrong = timedelta(days=2)
    ledger.settle(kit.event("r1", 50), kit.event("r2", 130))
    ledger.wrong = timedelta(0)
    ledger.correct(kit.correction("r2", 50, "refund"))
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger()
    assert recover(other.store, other.campaign, read_log(tmp_path / "log")) == (2, 2, 1)
    assert other.money() == ledger.money() == (0, 100)
    assert other.store.outcomes_after(0, 9) == ledger.store.outcomes_after(0, 9)
    assert other.store.corrections_after(0, 9) == ledger.store.corrections_after(0, 9)
    assert recover(other.store, other.campaign, read_log(tmp_path / "log")) == (0, 0, 0)


def test_sums_that_are_not_those_of_the_rows_are_no_backup(kit, spring, tmp_path, opened):
    _, path = spring
    ledger = opened()
    some(ledger, kit, "r")
    ledger.close()
    audit(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE settlement SET spent = spent + 1")
    with pytest.raises(InvalidInput, match="settlement is not the sum"):
        backup(path, tmp_path / "copy.db")
    assert not list(tmp_path.glob("*copy.db*"))


@pytest.mark.parametrize("schema", ["9", "99"], ids=["older", "newer"])
def test_ledger_of_another_schema_are_refused_and_left_as_they_are(kit, spring, opened, schema):
    _, path = spring
    opened().close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE about SET value = ? WHERE key = 'schema'", [schema])
    before = path.read_bytes()
    with pytest.raises(Conflict, match=f"its schema is '{schema}', not '{SCHEMA_VERSION}'; use another file"):
        opened()
    assert path.read_bytes() == before


@pytest.mark.parametrize("layout", [4, 6], ids=["older", "newer"])
def test_ledger_of_another_layout_in_redis_are_refused_instead_of_taken_for_none(kit, durable_redis, tmp_path, layout):
    campaign = kit.campaign(name=f"layout-{layout}")
    ledger = kit.open(campaign, tmp_path, durable_redis.url)
    ledger.authorize(kit.item("r1"))
    everything = asdict(ledger.store.totals())
    ledger.close()
    with redis.Redis.from_url(durable_redis.url) as client:
        client.set(f"ledger:{{{campaign.name}}}:layout", layout)
        before = set(client.scan_iter())
        with pytest.raises(Conflict, match=f"its layout is '{layout}', not '5'"):
            open_store(campaign, tmp_path, durable_redis.url)
        assert set(client.scan_iter()) == before
        # With the ledger of that layout all is as it was; another campaign is not concerned.
        client.set(f"ledger:{{{campaign.name}}}:layout", 5)
    again = kit.open(campaign, tmp_path, durable_redis.url)
    assert asdict(again.store.totals()) == everything
    again.close()


def test_a_copy_of_the_append_only_files_under_writes_is_ledger_that_a_redis_starts_with(kit, durable_redis, tmp_path):
    campaign = kit.campaign(limit=10**9)
    ledger = kit.open(campaign, tmp_path, durable_redis.url)
    stop = Event()
    told = []

    def writing():
        while not stop.is_set():
            name = f"r{len(told)}"
            ledger.authorize(kit.item(name))
            ledger.settle(kit.event(name, 50))
            told.append(name)

    with redis.Redis.from_url(durable_redis.url) as connection:
        (folder,) = connection.config_get("dir").values()
        writer = Thread(target=writing)
        writer.start()
        try:
            while len(told) < 50:
                stop.wait(0.01)
            connection.config_set("auto-aof-rewrite-percentage", 0)
            assert connection.info("persistence")["aof_rewrite_in_progress"] == 0
            before = len(told)
            shutil.copytree(Path(folder) / "appendonlydir", tmp_path / "restored" / "appendonlydir")
            after = len(told) + 1
        finally:
            stop.set()
            writer.join()
            connection.config_set("auto-aof-rewrite-percentage", 100)
    ledger.close()
    kept = open_store(campaign, tmp_path, durable_redis.url)
    LogWriter(kept, tmp_path / "log").write()
    everything = asdict(kept.totals())
    kept.close()

    server = RedisServer(tmp_path / "restored")
    server.start()
    try:
        restored = open_store(campaign, tmp_path, server.url)
        found = sum(restored.totals().outcomes.values())
        assert before <= found <= after
        assert sum(restored.totals().spent.values()) == 50 * found
        recover(restored, campaign, read_log(tmp_path / "log"))
        assert asdict(restored.totals()) == everything
        restored.close()
    finally:
        server.stop()
