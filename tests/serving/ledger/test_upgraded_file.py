"""A sqlite file of an earlier schema: brought up whole or not at all, by a step that stands for those to come."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from serving.ledger.sqlite import database
from serving.ledger.sqlite.backup import audit, backup
from serving.ledger.sqlite.store import SqliteStore
from shadowprice.errors import Conflict, InvalidInput, Unavailable

STEP = """
ALTER TABLE decision ADD COLUMN groups TEXT NOT NULL DEFAULT '';
UPDATE about SET value = '10' WHERE key = 'schema';
"""


@pytest.fixture
def earlier(kit, tmp_path):
    """A file with an open authorization, without the newest column of today's schema, and its campaign."""
    campaign, path = kit.campaign(), tmp_path / "ledger.db"
    ledger = kit.open(campaign, path)
    ledger.authorize(kit.item("open"))
    ledger.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE decision DROP COLUMN groups")
        connection.execute("UPDATE about SET value = '9' WHERE key = 'schema'")
    return campaign, path


def shape(path):
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
        return {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}


def test_a_file_that_a_step_brings_up_goes_on_and_has_the_tables_of_a_new_one(kit, earlier, tmp_path, monkeypatch):
    campaign, path = earlier
    with pytest.raises(Conflict, match="its schema is '9', not '10'; use another file"):
        SqliteStore(path, campaign)
    with pytest.raises(InvalidInput, match="its schema is '9', not '10'"):
        backup(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    monkeypatch.setitem(database.UPGRADES, "9", STEP)
    ledger = kit.open(campaign, path)
    assert ledger.settle(kit.event("open", 50)) == (1, 0)
    assert ledger.money() == (0, 50)
    assert [(row.request_id, row.groups) for row in ledger.store.decisions_after(0, 9)] == [("open", "")]
    ledger.close()
    audit(path)
    SqliteStore(tmp_path / "new.db", campaign).close()
    assert shape(path) == shape(tmp_path / "new.db")


def test_a_file_of_another_campaign_or_with_a_step_that_fails_stays_as_it_is(earlier, monkeypatch):
    campaign, path = earlier
    before = shape(path)
    monkeypatch.setitem(database.UPGRADES, "9", STEP)
    with pytest.raises(Conflict, match=f"its campaign is '{campaign.name}', not 'autumn'"):
        SqliteStore(path, replace(campaign, name="autumn"))
    assert shape(path) == before
    monkeypatch.setitem(database.UPGRADES, "9", STEP + "UPDATE absent SET value = 1;")
    with pytest.raises(Unavailable, match="no such table: absent"):
        SqliteStore(path, campaign)
    assert shape(path) == before
