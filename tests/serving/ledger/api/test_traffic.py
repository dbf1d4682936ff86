"""Requests by hour and the newest of them: counted when they are recorded, and read beside everything else."""

import random
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest

from serving.ledger.clock import microseconds
from serving.ledger.records import Known
from serving.ledger.sqlite import store as sqlite_store
from serving.ledger.sqlite.health import Health
from serving.ledger.sqlite.reader import Reader
from serving.ledger.sqlite.store import SqliteStore
from serving.ledger.traffic import HOUR, QUARTER
from shadowprice.errors import Unavailable


def recount(ledger, since):
    """Counts from the decisions themselves."""
    decisions = [row for row in ledger.store.decisions_after(0, 10**6) if row.decided_at >= since]
    return Counter((since + (row.decided_at - since) // HOUR * HOUR, row.side) for row in decisions)


def counted(ledger, since):
    hours = ledger.store.traffic(since, 0).hours
    assert [(each.hour, each.side) for each in hours] == sorted((each.hour, each.side) for each in hours)
    return {(microseconds(each.hour), each.side): each.requests for each in hours}


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_the_decisions_at_any_times(open_ledger, kit, seed):
    dice = random.Random(seed)
    ledger = open_ledger(limit=100_000)
    names = []
    for call in range(40):
        # Also clocks that are set back, and the first and last microsecond of a quarter.
        edge = dice.choice([0, -1, dice.randrange(QUARTER)])
        ledger.wrong = timedelta(microseconds=dice.randrange(-20, 20) * QUARTER + edge)
        items = [
            kit.item(f"{call}-{place}", side=dice.choice(["customer", "merchant"]))
            for place in range(dice.randrange(5))
        ]
        # Repeats and look-ups are no requests of their own.
        known = [Known(*dice.choice(names))] if names else []
        again = [kit.item(each.request_id, side=each.side) for each in items[:1]]
        ledger.authorize_calls([*items, *again], [*known, Known(f"never-{call}", "a", "customer")])
        names += [(each.request_id, "a", each.side) for each in items]
    ledger.wrong = timedelta(0)
    start = microseconds(kit.now)
    for quarters in (-30, -7, 0, 1, 5, 30):
        since = start + quarters * QUARTER
        assert counted(ledger, since) == recount(ledger, since)
    assert sum(counted(ledger, 0).values()) == len(names)


def test_a_refused_call_is_not_counted(ledger, kit):
    ledger.authorize(kit.item("one"))
    answers = ledger.authorize_calls([kit.item("two"), kit.item("one", account_id="b")], [kit.item("three")])
    assert isinstance(answers[0], Exception)
    assert sum(counted(ledger, 0).values()) == 2


def test_the_sample_is_of_the_newest_requests_from_then_on(ledger, kit):
    start = microseconds(kit.now)
    for number in range(6):
        ledger.authorize(kit.item(f"r{number}"))
        ledger.at += timedelta(hours=1)
    assert [each.request_id for each in ledger.store.traffic(start, 3).sample] == ["r5", "r4", "r3"]
    assert [each.request_id for each in ledger.store.traffic(start + 5 * HOUR, 3).sample] == ["r5"]
    assert ledger.store.traffic(start + 6 * HOUR, 3).sample == []


def test_the_newest_date_is_that_of_the_last_decision(ledger, kit):
    assert ledger.store.dates().recorded is None
    ledger.authorize(kit.item("one"))
    ledger.at += timedelta(minutes=1)
    ledger.authorize(kit.item("two"))
    assert ledger.store.dates().recorded == microseconds(ledger.at)


def test_nothing_waits_for_the_traffic(kit, tmp_path):
    ledger = kit.open(kit.campaign(), tmp_path / "ledger.db")
    ledger.authorize(kit.item("one"))
    reading, done = Event(), Event()

    def hold(database: sqlite3.Connection) -> None:
        database.execute("SELECT COUNT(*) FROM decision").fetchone()
        reading.set()
        done.wait(20)

    with ThreadPoolExecutor() as threads:
        held = threads.submit(ledger.store._traffic_reader.read, hold)
        assert reading.wait(10)
        try:
            assert threads.submit(ledger.store.totals).result(5).requests["customer"] == 1
            assert list(threads.submit(ledger.store.find, ["one"]).result(5)) == ["one"]
            ledger.authorize(kit.item("two"))
        finally:
            done.set()
        held.result(10)
    ledger.close()


def test_reading_that_takes_too_long_is_ended(kit, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_store, "TRAFFIC_SECONDS", 0.1)
    store = SqliteStore(tmp_path / "ledger.db", kit.campaign())
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
    with pytest.raises(Unavailable, match=r"took longer than 0.1 s"):
        store._traffic_reader.read(lambda database: database.execute(endless).fetchone())
    assert store.traffic(0, 10).hours == []
    store.close()


def test_a_caller_does_not_wait_longer_for_the_others(kit, tmp_path):
    path = tmp_path / "ledger.db"
    store = SqliteStore(path, kit.campaign())
    reader = Reader(path, Health(path), seconds=0.1)
    reading, done = Event(), Event()

    def hold(_: sqlite3.Connection) -> None:
        reading.set()
        done.wait(20)

    with ThreadPoolExecutor() as threads:
        held = threads.submit(reader.read, hold)
        assert reading.wait(10)
        with pytest.raises(Unavailable, match=r"others read for longer than 0.1 s"):
            reader.read(lambda _: None)
        done.set()
        held.result(10)
    reader.close()
    store.close()
