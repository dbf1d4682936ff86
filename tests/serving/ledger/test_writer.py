import sqlite3
import threading
from concurrent.futures import wait
from contextlib import closing
from datetime import UTC, datetime

import pytest

from serving.ledger.durability import Durability
from serving.ledger.sqlite.claim import Claim
from serving.ledger.sqlite.database import create, open_for_reading
from serving.ledger.sqlite.writer import Writer
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict, NotFound, Unavailable

SPRING = {
    "name": "spring",
    "sides": {"customer": Terms(levels=(0, 50))},
    "budget": Budget(limit=1000),
    "starts_at": datetime(2024, 5, 1, tzinfo=UTC),
}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "ledger.db"
    create(file, Campaign(**SPRING))
    return file


def put(key):
    def job(database):
        database.execute("INSERT INTO about (key, value) VALUES (?, '1')", (key,))
        return key

    return job


def keys(path):
    database = open_for_reading(path)
    found = {key for (key,) in database.execute("SELECT key FROM about")} - {
        "campaign",
        "schema",
        "ledger_time",
        "terms",
        "epoch",
    }
    database.close()
    return found


def test_jobs_of_many_threads_are_all_kept_and_answered_to_the_right_caller(path):
    writer = Writer(path)
    results = {}

    def call(name):
        results[name] = writer.submit(put(name)).result(30)

    threads = [threading.Thread(target=call, args=(f"k{i}",)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {f"k{i}": f"k{i}" for i in range(40)}
    assert keys(path) == set(results)
    writer.close()


def test_a_failing_job_leaves_no_trace_and_does_not_disturb_its_group(path):
    writer = Writer(path)
    gate = threading.Event()

    def half(database):
        put("half")(database)
        raise NotFound("the second half")

    held = writer.submit(lambda database: gate.wait(30))
    futures = [writer.submit(job) for job in (put("before"), half, put("after"))]
    gate.set()
    wait([held, *futures], 30)
    assert isinstance(futures[1].exception(), NotFound)
    assert (futures[0].result(), futures[2].result()) == ("before", "after")
    assert keys(path) == {"before", "after"}
    writer.close()


def test_a_result_is_given_only_after_it_is_on_disk(path):
    writer = Writer(path)
    for number in range(20):
        writer.submit(put(f"k{number}")).result(30)
        assert f"k{number}" in keys(path)
    writer.close()


def test_a_caller_who_went_away_before_his_turn_is_not_served(path):
    writer = Writer(path)
    gate = threading.Event()
    held = writer.submit(lambda database: gate.wait(30))
    gone = writer.submit(put("gone"))
    assert gone.cancel()
    gate.set()
    held.result(30)
    assert writer.submit(put("next")).result(30) == "next"
    assert keys(path) == {"next"}
    assert writer.alive
    writer.close()


def test_a_database_that_cannot_be_written_makes_callers_wait_for_another_day(path, caplog):
    writer = Writer(path)
    blocker = sqlite3.connect(path, isolation_level=None)
    writer.submit(lambda database: database.execute("PRAGMA busy_timeout = 10")).result(30)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="nothing was recorded"):
        writer.submit(put("k")).result(30)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert writer.submit(put("k")).result(30) == "k"
    writer.close()


def test_a_lone_decision_writes_few_kilobytes_and_an_old_files_pages_stay_as_they_are(kit, tmp_path):
    campaign = kit.campaign()
    for name, page in (("new.db", 1024), ("old.db", 4096)):
        path = tmp_path / name
        if name == "old.db":
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA page_size = 4096")
                database.execute("PRAGMA journal_mode = WAL")
        ledger = kit.open(campaign, path)
        log = tmp_path / f"{name}-wal"
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA page_size").fetchone() == (page,)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(10):
            ledger.authorize(kit.item(f"r{number}"))
        # Six trees: decisions and their two indices, authorizations and their index, the sums.
        assert 6 * page <= log.stat().st_size / 10 <= 8 * page
        ledger.close()


def test_a_file_belongs_to_one_campaign_and_one_process(path):
    with pytest.raises(Conflict, match="autumn"):
        create(path, Campaign(**SPRING | {"name": "autumn"}))
    create(path, Campaign(**SPRING))
    claim = Claim(path)
    with pytest.raises(Conflict, match="another process"):
        Claim(path)
    claim.close()
    Claim(path).close()


@pytest.mark.parametrize("how", ["symlink", "hard link", "no lock"])
def test_neither_a_link_nor_a_removed_lock_admits_a_second_ledger(path, tmp_path, how):
    claim = Claim(path)
    other = path if how == "no lock" else tmp_path / "other" / "ledger.db"
    other.parent.mkdir(exist_ok=True)
    if how == "symlink":
        other.symlink_to(path)
    elif how == "hard link":
        other.hardlink_to(path)
    else:
        path.with_name(f"{path.name}.lock").unlink()
    with pytest.raises(Conflict, match="another process"):
        Claim(other)
    claim.close()


@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_a_file_that_leaves_its_place_under_a_running_ledger_is_noticed_at_the_next_call(kit, tmp_path, how):
    path = tmp_path / "ledger.db"
    ledger = kit.open(kit.campaign(), path)
    ledger.authorize(kit.item("r1"))
    if how == "removed":
        path.unlink()
    else:
        path.rename(path.with_name("away.db"))
    if how == "replaced":
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(Unavailable, match="moved, removed or replaced"):
            ledger.authorize(kit.item("r2"))
    assert "put the file back" in ledger.store.trouble
    assert not ledger.store.alive
    ledger.close()


@pytest.mark.parametrize("how", ["removed", "an older copy"])
def test_the_witness_refuses_a_file_that_lost_records(kit, tmp_path, how):
    campaign, path = kit.campaign(), tmp_path / "ledger.db"
    witness = Durability(witness=tmp_path / "elsewhere" / "witness.json")
    witness.witness.parent.mkdir()
    ledger = kit.open(campaign, path, "", witness)
    ledger.authorize(kit.item("r1"))
    ledger.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = path.read_bytes()
    ledger = kit.open(campaign, path, "", witness)
    ledger.authorize(kit.item("r2"))
    ledger.close()
    for each in tmp_path.glob("ledger.db*"):
        each.unlink()
    if how == "an older copy":
        path.write_bytes(older)
    with pytest.raises(Conflict, match=r"went back: it holds [01] decisions.* noted 2 decisions"):
        kit.open(campaign, path, "", witness)
    witness.witness.unlink()
    kit.open(campaign, path, "", witness).close()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    file = tmp_path / "ledger.db"
    file.write_text("this is not a database, but it is long enough to look like one" * 20)
    with pytest.raises(Unavailable, match=r"ledger\.db"):
        create(file, Campaign(**SPRING))
