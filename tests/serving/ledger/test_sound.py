"""Records and sums that were damaged after they were written: no money is granted from them, and the error says so."""

import sqlite3
from contextlib import closing

import pytest
import redis

from serving.ledger.redis.layout import keys
from serving.ledger.redis.rows import pack, unpack
from serving.ledger.redis.scripts import KEYS
from serving.ledger.redis.store import RedisStore
from serving.ledger.sqlite import authorizations
from shadowprice.errors import Unavailable
from shadowprice.limits import Cap, Limits

ONCE = Limits(caps=(Cap(name="once", per="account", count=1),))


@pytest.fixture
def damage(open_ledger, kit, tmp_path):
    """Opens a ledger with a decision, an outcome and a cap; damages one of its records or sums behind its back."""
    ledger = open_ledger(limits=ONCE)
    ledger.authorize(kit.item("a"), kit.item("b", account_id="b"))
    ledger.settle(kit.event("b", 50))

    def damaging(sql, key, field, change):
        if isinstance(ledger.store, RedisStore):
            with redis.Redis(**ledger.store._client.get_connection_kwargs()) as client:
                name = keys(ledger.campaign.name)[KEYS.index(key)]
                client.hset(name, field, change(client.hget(name, field)))
        else:
            with closing(sqlite3.connect(tmp_path / f"{ledger.campaign.name}.db")) as database:
                database.execute("PRAGMA ignore_check_constraints = ON")
                database.execute(sql)
                database.commit()
        return ledger

    return damaging


def changed(kept, before, after):
    """A packed record with another value in the first field that has the one before."""
    row = unpack(kept)
    row[row.index(before)] = after
    return pack(row)


def test_a_record_that_cannot_be_is_not_returned(damage, kit):
    sql = "UPDATE decision SET level = -7 WHERE request_id = 'a'"
    ledger = damage(sql, "decision", "a", lambda kept: changed(kept, 1, -7))
    with pytest.raises(Unavailable, match=r"the record of request 'a' is damaged: .*restore the ledger or recover it"):
        ledger.store.find(["a"])
    with pytest.raises(Unavailable, match="the record of request 'a' is damaged"):
        ledger.authorize(kit.item("a"))
    with pytest.raises(Unavailable, match="the record of request 'a' is damaged"):
        ledger.settle(kit.event("a", 50))


def test_an_outcome_that_cannot_be_is_not_logged(damage):
    sql = "UPDATE outcome SET response = -1.0"
    ledger = damage(sql, "outcome", "b", lambda kept: changed(kept, 1, -1))
    with pytest.raises(Unavailable, match="the outcome of request 'b' is damaged"):
        ledger.store.outcomes_after(0, 10)


def test_sums_that_are_negative_are_no_totals(damage):
    ledger = damage("UPDATE settlement SET closed = 1000", "sums", "closed|customer", lambda _: b"1000")
    with pytest.raises(Unavailable, match="the sum 'outstanding' of 'customer' is damaged: it is -900"):
        ledger.store.totals()


def test_a_sum_of_a_limit_that_is_negative_is_not_returned(damage):
    ledger = damage("UPDATE limit_usage SET count = -1", "limit_count", "once||b", lambda _: b"-1")
    with pytest.raises(Unavailable, match=r"the sum 'once\|\|b' of a limit is damaged"):
        ledger.store.usage(["once||b"])


def test_no_decision_that_cannot_be_is_recorded(open_ledger, kit):
    ledger = open_ledger()
    entry = ledger._entry(kit.item("a"), ledger.campaign, {})
    wrong = entry._replace(wanted=entry.wanted._replace(propensity=2.0))
    with pytest.raises(Unavailable, match="the record of request 'a' is damaged"):
        ledger.store.authorize([[wrong]], None, ledger.store.date()).result(20)
    assert ledger.store.find(["a"]) == {}


def test_a_call_whose_money_is_not_in_the_sums_is_not_kept(kit, tmp_path, monkeypatch):
    ledger = kit.open(kit.campaign(), tmp_path / "ledger.db")
    record = authorizations._record
    monkeypatch.setattr(authorizations, "_record", lambda database, new: record(database, new * 2))
    with pytest.raises(Unavailable):
        ledger.authorize(kit.item("a"))

    def cheaper(database, new):
        record(database, new)
        database.execute("UPDATE tally SET reserved = 0")

    monkeypatch.setattr(authorizations, "_record", cheaper)
    with pytest.raises(Unavailable, match="50 minor units were added to 0 open or spent, and the sums are 0"):
        ledger.authorize(kit.item("b"))
    monkeypatch.undo()
    assert ledger.store.find(["a", "b"]) == {}
    assert ledger.money() == (0, 0)
    ledger.close()
