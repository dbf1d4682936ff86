"""A sqlite file of an earlier schema: brought up whole or not at all, by a step that stands for those to come."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from serving.ledger.sqlite import database
from serving.ledger.sqlite.backup import audit, backup
from serving.ledger.sqlite.store import SqliteStore
from shadowprice.errors import Conflict, InvalidInput, Unavailable

BACK = """
ALTER TABLE hold RENAME TO promise;
DROP INDEX hold_expiry;
CREATE INDEX promise_expiry ON promise (expires_at);
ALTER TABLE tally RENAME COLUMN authorized TO authorised;
ALTER TABLE outcome DROP COLUMN amount;
ALTER TABLE correction DROP COLUMN amount;
ALTER TABLE decision DROP COLUMN basis;
DROP TABLE move;
DROP TABLE moved;
UPDATE about SET value = '10' WHERE key = 'schema';
"""
"""The changes since schema 10, backwards."""


@pytest.fixture
def earlier(kit, tmp_path):
    """A file of schema 10 with an open authorization, and its campaign."""
    campaign, path = kit.campaign(), tmp_path / "ledger.db"
    ledger = kit.open(campaign, path)
    ledger.authorize(kit.item("open"))
    ledger.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(BACK)
    return campaign, path


def shape(path):
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
        return {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}


def test_a_file_that_a_step_brings_up_goes_on_and_has_the_tables_of_a_new_one(kit, earlier, tmp_path, monkeypatch):
    campaign, path = earlier
    with monkeypatch.context() as patched:
        patched.delitem(database.UPGRADES, "10")
        with pytest.raises(Conflict, match="its schema is '10', not '12'; use another file"):
            SqliteStore(path, campaign)
    with pytest.raises(InvalidInput, match="its schema is '10', not '12'"):
        backup(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    ledger = kit.open(campaign, path)
    assert ledger.settle(kit.event("open", 50, amount=900)) == (1, 0)
    assert ledger.money() == (0, 50)
    assert [row.request_id for row in ledger.store.decisions_after(0, 9)] == ["open"]
    ledger.close()
    audit(path)
    SqliteStore(tmp_path / "new.db", campaign).close()
    assert shape(path) == shape(tmp_path / "new.db")


def test_a_file_of_another_campaign_or_with_a_step_that_fails_stays_as_it_is(earlier, monkeypatch):
    campaign, path = earlier
    before = shape(path)
    with pytest.raises(Conflict, match=f"its campaign is '{campaign.name}', not 'autumn'"):
        SqliteStore(path, replace(campaign, name="autumn"))
    assert shape(path) == before
    monkeypatch.setitem(database.UPGRADES, "10", database.UPGRADES["10"] + "UPDATE absent SET value = 1;")
    with pytest.raises(Unavailable, match="no such table: absent"):
        SqliteStore(path, campaign)
    assert shape(path) == before
