"""Ledger that an earlier release has written: they are opened, read and settled as if nothing had happened.

``old/`` holds the ledger of one campaign as the releases before ``most_units`` kept them: a sqlite file of schema 2 as
SQL, and the keys of layout 1 as the commands that make them; and as the releases before ledger time, whose
authorizations expired by the wall clock, kept these: schema 3 and layout 2. Its merchants are paid on response; a
authorization had its face value reserved, and one of them was paid for two and a half units.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from serving.ledger.clock import microseconds
from serving.ledger.opening import open_store
from serving.ledger.sqlite.backup import audit, backup
from serving.ledger.sqlite.store import SqliteStore
from serving.ledger.traffic import HOUR, QUARTER
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, InvalidInput, ShadowpriceError

OLD = Path(__file__).parent / "old"
REQUESTS = [
    *("expired", "merchant-expired", "open", "paid", "returned"),
    *("merchant-open", "merchant-paid", "second", "refused"),
]


@pytest.fixture
def kept(kit):
    """The campaign of the old ledger, as it stands in a file of today that says that three units are paid."""
    terms = {"customer": Terms(levels=(0, 50, 130)), "merchant": Terms(levels=(20, 60), most_units=3)}
    return kit.campaign(name="kept", sides=terms, limit=1000, authorisation_ttl_hours=2.0)


@pytest.fixture(params=[2, 3])
def schema(request):
    return request.param


@pytest.fixture
def old_file(tmp_path, schema):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((OLD / f"schema-{schema}.sql").read_text())
        database.execute("PRAGMA journal_mode = WAL")
    return path


@pytest.fixture(params=[1, 2])
def layout(request):
    return request.param


@pytest.fixture
def old_redis(durable_redis, layout):
    """A Redis with the old ledger, and no others of that campaign."""
    with redis.Redis.from_url(durable_redis.url) as client:
        for key in client.scan_iter("ledger:*{kept}*"):
            client.delete(key)
        for command in json.loads((OLD / f"layout-{layout}.json").read_text()):
            client.execute_command(*command)
        yield client


def settle_what_is_there(ledger, kit):
    totals = ledger.store.totals()
    assert totals.authorised == {"customer": 410, "merchant": 140}
    assert totals.outstanding == {"customer": 180, "merchant": 60}
    assert totals.spent == {"customer": 180, "merchant": 50}
    assert (totals.released["merchant", "expired"], totals.released["customer", "returned"]) == (60, 50)
    decisions = ledger.store.decisions_after(0, 100)
    assert [(row.request_id, row.most_units) for row in decisions] == [(name, 1) for name in REQUESTS]
    assert {row.arm for row in decisions} == {"unassigned"}
    # The newest decision was made two hours after the campaign's start: ledger time begins there.
    ledger.wrong = timedelta(hours=2)
    assert ledger.sweep() == 0
    ledger.at += timedelta(hours=0.5)
    # The old authorization had one unit reserved, whatever the terms say now.
    with pytest.raises(ShadowpriceError, match="most_units = 1 are paid") as refusal:
        ledger.settle(kit.event("merchant-open", 120, response=2.0, at=ledger.at))
    assert (refusal.value.field, refusal.value.status) == ("[0].data.cost", 422)
    told_again = kit.event("paid", 130, at=ledger.at)
    assert ledger.settle(kit.event("merchant-open", 60, response=2.0, at=ledger.at), told_again) == (1, 1)
    assert ledger.release("open") == (1, 0)
    assert ledger.money() == (130, 290)
    # A new one has three, and the refusal counts them.
    wanted = [kit.item(f"new-{number}", side="merchant") for number in range(4)]
    assert [each.decision.incentive for each in ledger.authorise(*wanted)] == [60, 60, 60, 0]
    assert ledger.money() == (130 + 3 * 180, 290)
    assert ledger.settle(kit.event("new-0", 180, response=4.0, at=ledger.at)) == (1, 0)
    ledger.at += timedelta(hours=2)
    assert ledger.sweep() == 3
    assert ledger.money() == (0, 470)


def expiries_of_the_wall_clock_come_none_early(ledger):
    ledger.at += timedelta(hours=2) - timedelta(microseconds=1)
    assert ledger.sweep() == 0
    ledger.at += timedelta(microseconds=1)
    assert ledger.sweep() == 3
    assert ledger.store.totals().outstanding == {"customer": 0, "merchant": 0}


def test_a_sqlite_file_of_an_earlier_schema_goes_on(kit, kept, old_file):
    ledger = kit.open(kept, old_file)
    settle_what_is_there(ledger, kit)
    ledger.close()
    audit(old_file)
    SqliteStore(old_file, kept).close()


def test_authorizations_of_earlier_ledger_expire_as_long_after_the_newest_of_them(
    kit, kept, old_file, old_redis, durable_redis, tmp_path
):
    for ledger in (kit.open(kept, old_file), kit.open(kept, tmp_path, durable_redis.url)):
        expiries_of_the_wall_clock_come_none_early(ledger)
        ledger.close()


def traffic_is_a_recount(store):
    decisions = store.decisions_after(0, 100)
    since = min(row.decided_at for row in decisions) // QUARTER * QUARTER
    counts = Counter((since + (row.decided_at - since) // HOUR * HOUR, row.side) for row in decisions)
    found = store.traffic(since, 100)
    assert {(microseconds(each.hour), each.side): each.requests for each in found.hours} == counts
    assert len(counts) > 2
    assert [each.request_id for each in found.sample] == [row.request_id for row in decisions[::-1]]


def test_requests_of_earlier_ledger_are_counted(kit, kept, old_file, old_redis, durable_redis, tmp_path):
    for ledger in (kit.open(kept, old_file), kit.open(kept, tmp_path, durable_redis.url)):
        traffic_is_a_recount(ledger.store)
        ledger.authorise(kit.item("one more"))
        traffic_is_a_recount(ledger.store)
        ledger.close()
    assert not old_redis.exists(*(f"ledger:4:{{kept}}:asked:{side}" for side in kept.sides))


def test_a_file_brought_up_has_the_tables_of_a_new_one(kept, old_file, tmp_path):
    def shape(path):
        with closing(sqlite3.connect(path)) as database:
            names = [name for (name,) in database.execute("SELECT name FROM sqlite_schema ORDER BY name")]
            checks = "SELECT COUNT(*) FROM sqlite_schema WHERE sql LIKE '%CHECK (reserved > 0)%'"
            return (
                {name: database.execute(f"PRAGMA table_info({name})").fetchall() for name in names},
                database.execute(checks).fetchone(),
            )

    SqliteStore(old_file, kept).close()
    SqliteStore(tmp_path / "new.db", kept).close()
    assert shape(old_file) == shape(tmp_path / "new.db")


def test_a_file_of_another_campaign_is_not_brought_up(kept, old_file):
    before = old_file.read_bytes()
    with pytest.raises(Conflict, match="its campaign is 'kept', not 'spring'"):
        SqliteStore(old_file, replace(kept, name="spring"))
    assert old_file.read_bytes() == before


def test_a_file_of_an_earlier_schema_is_copied_by_its_own_release(old_file, schema, tmp_path):
    with pytest.raises(InvalidInput, match=f"its schema is '{schema}', not '10'"):
        backup(old_file, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize(
    ("layout", "noted"), [(1, True), (1, False), (2, True)], ids=["1", "1, not noted yet", "2"], indirect=["layout"]
)
def test_ledger_of_an_earlier_layout_in_redis_go_on(kit, kept, old_redis, durable_redis, tmp_path, noted):
    if not noted:
        old_redis.delete("ledger:{kept}:layout")
    ledger = kit.open(kept, tmp_path, durable_redis.url)
    settle_what_is_there(ledger, kit)
    before = ledger.store.totals()
    ledger.close()
    again = kit.open(kept, tmp_path, durable_redis.url)
    assert again.store.totals() == before
    again.close()


def test_a_ledger_of_an_earlier_layout_that_still_runs_authorizations_nothing_more(
    kept, old_redis, layout, durable_redis, tmp_path
):
    assert old_redis.hget(f"ledger:{layout}:{{kept}}:decision", "open") is not None
    open_store(kept, tmp_path, durable_redis.url).close()
    # The first thing that each of its scripts does, and its reading of the sums.
    for command in (
        ("HGET", "decision", "open"),
        ("HGET", "event", "shop\nof-paid"),
        ("HEXISTS", "outcome", "paid"),
        ("ZRANGEBYSCORE", "promise", "-inf", "0"),
        ("HGETALL", "sums"),
    ):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            old_redis.execute_command(command[0], f"ledger:{layout}:{{kept}}:{command[1]}", *command[2:])
