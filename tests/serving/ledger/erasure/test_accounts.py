"""Export and erasure of an account in either store: sums stay, and a restored backup is erased before it serves."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta

import pytest
import redis

from operations.erasure.record import KEY, RECORD, Erasures
from serving.ledger.api.usage import Wanted, owners_now
from serving.ledger.log import LogWriter
from serving.ledger.redis.accounts import RedisAccounts
from serving.ledger.redis.layout import keys
from serving.ledger.redis.lease import Lease
from serving.ledger.redis.store import RedisStore
from serving.ledger.settings import StoreSettings
from serving.ledger.sqlite import accounts as module
from serving.ledger.sqlite.accounts import SqliteAccounts
from serving.ledger.sqlite.backup import audit, backup
from serving.recover import RecoverSettings, _recover
from shadowprice.errors import Conflict
from shadowprice.files import write_whole
from shadowprice.limits import Cap, GroupBudget, Limits
from shadowprice.pacing.decision_log.served import read_log

ODD = 'a|b "c" \\ *?[é日]/../x'
OWNERS = ("account_id", "partner_id")
LIMITS = Limits(
    budgets=(GroupBudget(name="shops", limit=10_000, partners=("shop",)),),
    caps=(
        Cap(name="mine", per="account", count=3, amount=10_000),
        Cap(name="daily", per="account", count=2, period="day"),
        Cap(name="shop", per="partner", amount=5_000),
    ),
)


@pytest.fixture
def served(open_ledger, kit, tmp_path, request):
    """A ledger that was used by the odd account, as customer and as partner, and by others; and its source."""
    campaign = kit.campaign(limit=10**6, limits=LIMITS)
    ledger = open_ledger(campaign)
    for number, (account, partner) in enumerate([(ODD, "shop"), ("b", ODD), (ODD, ""), ("b|c", "shop"), ("b", ODD)]):
        ledger.authorize(kit.item(f"r{number}", account_id=account, partner_id=partner, level=1 + number % 2))
    ledger.settle(kit.event("r0", 50, amount=4999), kit.event("r1", 130))
    ledger.correct(kit.correction("r0", 20))
    ledger.release("r3")
    write_whole(tmp_path / "campaign.json", json.dumps(campaign.to_dict()))
    redis_url = request.getfixturevalue("durable_redis").url if isinstance(ledger.store, RedisStore) else ""
    path = tmp_path / f"{campaign.name}.db"

    def source():
        return RedisAccounts(redis_url, None, campaign.name) if redis_url else SqliteAccounts(path)

    settings = StoreSettings(campaign_file=tmp_path / "campaign.json", db=path, redis=redis_url)
    return ledger, source, settings


def record(folder, account=ODD, pseudonym="erased-1"):
    found = Erasures(folder)
    found.add(account, pseudonym)
    return found


def state(store):
    """Everything that a store tells."""
    sums = [f"mine||{owner}" for owner in (ODD, "erased-1", "b", "b|c")] + ["shops||", f"shop||{ODD}", "shop||erased-1"]
    sums += [f"daily|2024-05-01|{owner}" for owner in (ODD, "erased-1", "b")]
    rows = [store.decisions_after(0, 99), store.outcomes_after(0, 99), store.corrections_after(0, 99)]
    return asdict(store.totals()), {name: used for name, used in store.usage(sums).items() if any(used)}, rows


def as_erased(told):
    """Return what a store is to tell after the erasure: the pseudonym in place of the account."""
    totals, usage, (decisions, *others) = told
    new = {ODD: "erased-1"}
    rows = [row._replace(**{name: new.get(value := getattr(row, name), value) for name in OWNERS}) for row in decisions]
    usage = dict(usage)
    for name in [name for name in usage if name.endswith(ODD)]:
        usage[name.removesuffix(ODD) + "erased-1"] = usage.pop(name)
    return totals, usage, [rows, *others]


def test_an_erasure_replaces_the_identifier_and_keeps_every_sum_and_cap(served, tmp_path):
    ledger, source, settings = served
    before = state(ledger.store)
    ledger.close()
    held = list(source().rows(ODD, requests := set()))
    assert {row["request_id"] for row in held if row["table"] == "decision"} == {"r0", "r1", "r2", "r4"}
    assert requests == {"r0", "r2"}
    assert {row["table"] for row in held} >= {"decision", "outcome", "correction", "limit_share"}
    assert [row["cost"] for row in held if row["table"] == "correction"] == [20]
    assert "4999" in json.dumps([row for row in held if row["table"] == "outcome"])
    assert {row["name"] for row in held if row["table"].startswith("limit_") and "name" in row} == {
        *(f"mine||{ODD}", f"daily|2024-05-01|{ODD}", f"shop||{ODD}")
    }
    assert source().erase(record(tmp_path)) == 4
    assert source().erase(Erasures(tmp_path)) == 0
    assert list(source().rows(ODD, set())) == []
    assert source().mentions(ODD) == 0
    assert len(list(source().rows("erased-1", set()))) == len(held)
    store = settings.open(ledger.campaign)
    try:
        told = state(store)
        assert told == as_erased(before)
        assert (told[1]["mine||erased-1"].uses, told[1]["shop||erased-1"].amount) == (2, 180)
    finally:
        store.close()


def test_an_account_named_like_a_side_and_a_level_is_erased_without_the_counts_of_levels(
    open_ledger, kit, tmp_path, request
):
    """The account is ``customer|1``; a limit on a second outcome counts the customers that level 1 was given."""
    guard = GroupBudget(name="calm", limit=9.0, outcome="x_contacts")
    campaign = kit.campaign(
        limit=10**6, limits=Limits(budgets=(guard,), caps=(Cap(name="mine", per="account", count=9),))
    )
    ledger = open_ledger(campaign)
    ledger.authorize(*(kit.item(f"r{row}", account_id=name, level=1) for row, name in enumerate(("customer|1", "b"))))
    wanted = Wanted(name="calm", of="", after="", limit=9)

    def counted(ledger):
        page = owners_now(ledger.campaign, ledger.store.owners, wanted, ledger.date)
        return dict(zip(page.owners, page.uses, strict=True))

    assert counted(ledger) == {"customer|1": 2}
    redis_url = request.getfixturevalue("durable_redis").url if isinstance(ledger.store, RedisStore) else ""
    ledger.close()
    path = tmp_path / f"{campaign.name}.db"
    source = RedisAccounts(redis_url, None, campaign.name) if redis_url else SqliteAccounts(path)
    held = [
        row["name"] for row in source.rows("customer|1", set()) if row["table"].startswith("limit_") and "name" in row
    ]
    assert set(held) == {"mine||customer|1"}
    source.erase(record(tmp_path, "customer|1"))
    again = open_ledger(campaign)
    assert counted(again) == {"customer|1": 2}
    assert again.store.usage(["mine||erased-1"])["mine||erased-1"].uses == 1


def test_money_of_an_erased_account_moves_on_in_the_sums_of_its_pseudonym(open_ledger, served, kit, tmp_path):
    ledger, source, _ = served
    ledger.close()
    source().erase(record(tmp_path))
    again = open_ledger(ledger.campaign)
    again.settle(kit.event("r2", 10))
    again.release("r4")
    usage = again.store.usage(["mine||erased-1", "shop||erased-1", f"mine||{ODD}"])
    assert [tuple(each) for each in usage.values() if any(each)] == [(30, 2), (130, 1)]
    # The person who comes back is a new account: caps begin anew, sums of budgets do not.
    (found,) = again.authorize(kit.item("r9", account_id=ODD))
    assert (found.decision.level, again.store.usage([f"mine||{ODD}"])[f"mine||{ODD}"].uses) == (1, 1)
    with pytest.raises(Conflict, match="decided before for another account"):
        again.authorize(kit.item("r2", account_id=ODD))


def test_a_restored_backup_is_erased_before_it_serves_and_not_what_came_after(served, kit, tmp_path):
    ledger, source, settings = served
    before = state(ledger.store)
    path, place = settings.db, keys(ledger.campaign.name)
    with redis.Redis.from_url(settings.redis) if settings.redis else closing(sqlite3.connect(path)) as client:
        if settings.redis:
            kept = {key: client.dump(key) for key in place if client.exists(key)}
        else:
            backup(path, tmp_path / "backup")
        ledger.close()
        source().erase(record(tmp_path))
        if settings.redis:
            for key, value in kept.items():
                client.restore(key, 0, value, replace=True)
    if not settings.redis:
        for file in tmp_path.glob(f"{path.name}*"):
            file.unlink()
        shutil.copy(tmp_path / "backup", path)
    assert len(list(source().rows(ODD, set()))) > 4
    store = settings.open(ledger.campaign)
    assert state(store) == as_erased(before)
    store.close()
    assert list(source().rows(ODD, set())) == []
    # It was noted: the same record leaves a later request of the account alone.
    again = kit.open(ledger.campaign, path, settings.redis)
    again.authorize(kit.item("later", account_id=ODD))
    again.close()
    settings.open(ledger.campaign).close()
    assert [row["request_id"] for row in source().rows(ODD, set()) if row["table"] == "decision"] == ["later"]


def test_a_backup_whose_erasure_no_key_recognizes_is_refused(served, tmp_path):
    ledger, _, settings = served
    ledger.close()
    record(tmp_path)
    (tmp_path / KEY).unlink()
    with pytest.raises(Conflict, match=r"lacks the erasure of .* restore a backup from after it"):
        settings.open(ledger.campaign)
    # A ledger that began after the erasure does not need the key.
    lines = (tmp_path / RECORD).read_text().replace('{"at":"20', '{"at":"19')
    (tmp_path / RECORD).write_text(lines)
    for _ in range(2):
        settings.open(ledger.campaign).close()


def test_the_record_has_no_identifier_and_its_digest_needs_the_key(tmp_path):
    found = record(tmp_path, "m-7")
    assert "m-7" not in (tmp_path / RECORD).read_text()
    assert (tmp_path / KEY).stat().st_mode & 0o077 == 0
    assert list(Erasures(tmp_path).match(["m-8", "m-7", None])) == ["m-7"]
    (tmp_path / KEY).write_bytes(b"other")
    assert Erasures(tmp_path).match(["m-7"]) == {}
    assert found.every[0].pseudonym == "erased-1"


def test_a_line_that_was_not_written_whole_does_not_spoil_the_next(tmp_path):
    record(tmp_path)
    with (tmp_path / RECORD).open("a") as file:
        file.write('{"at": "2024')
    record(tmp_path, "b", "erased-2")
    assert [each.pseudonym for each in Erasures(tmp_path).every] == ["erased-1", "erased-2"]


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_no_page_of_the_file_keeps_the_identifier(served, tmp_path):
    ledger, source, settings = served
    ledger.close()

    def held():
        return [file.name for file in tmp_path.glob(f"{settings.db.name}*") if ODD.encode() in file.read_bytes()]

    assert held()
    source().erase(record(tmp_path))
    assert held() == []
    audit(settings.db)


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_running_ledger_refuses(served, tmp_path):
    _, source, _ = served
    with pytest.raises(Conflict, match="another process is writing"):
        source().erase(record(tmp_path))
    assert len(list(source().rows(ODD, set()))) > 4


@pytest.mark.parametrize("open_ledger", ["redis"], indirect=True)
def test_a_ledger_that_writes_the_log_refuses(served):
    ledger, source, settings = served
    assert ledger.store.may_log(60)
    with pytest.raises(Conflict, match="a ledger writes its log"):
        source().keep_log()
    ledger.close()
    source().keep_log()
    with redis.Redis.from_url(settings.redis) as client:
        assert not Lease(client, f"ledger:{{{ledger.campaign.name}}}:log_writer").take(1)


@pytest.mark.parametrize("open_ledger", ["redis"], indirect=True)
def test_a_request_during_the_erasure_is_erased_with_the_others(served, kit, tmp_path, monkeypatch):
    ledger, source, _ = served
    before = state(ledger.store)[0]["outstanding"]["customer"]
    ledger.at += timedelta(days=1)
    made = RedisAccounts._made
    asked = iter(["r7", "r8"])

    def meanwhile(self, *given):
        # Between any two rounds, and so between the last reading and the writing.
        if name := next(asked, None):
            ledger.authorize(kit.item(name, account_id=ODD))
        return made(self, *given)

    monkeypatch.setattr(RedisAccounts, "_made", meanwhile)
    assert source().erase(record(tmp_path)) == 6
    usage = ledger.store.usage(["mine||erased-1", f"mine||{ODD}"])
    assert {name: tuple(each) for name, each in usage.items() if any(each)} == {"mine||erased-1": (120, 3)}
    assert ledger.store.totals().outstanding["customer"] == before + 50


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_an_erasure_that_is_killed_at_any_statement_is_finished_by_the_next(served, tmp_path):
    ledger, _, settings = served
    before = state(ledger.store)
    backup(settings.db, tmp_path / "backup")
    ledger.close()
    erasures = record(tmp_path)
    opened = module.open_for_writing
    for statement in range(1, 200):
        copy = tmp_path / f"{statement}" / "ledger.db"
        copy.parent.mkdir()
        shutil.copy(tmp_path / "backup", copy)
        child = os.fork()
        if not child:
            left = [statement]

            def count(text, left=left):
                left[0] -= not text.startswith(("SELECT", "PRAGMA table_info"))
                if not left[0]:
                    os._exit(9)

            def counted(path, count=count):
                database = opened(path)
                database.set_trace_callback(count)
                return database

            module.open_for_writing = counted
            SqliteAccounts(copy).erase(erasures)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        SqliteAccounts(copy).erase(Erasures(tmp_path))
        store = StoreSettings(campaign_file=tmp_path / "campaign.json", db=copy).open(ledger.campaign)
        assert state(store) == as_erased(before), statement
        store.close()
        assert ODD.encode() not in copy.read_bytes()
        if not killed:
            break
    assert 10 < statement < 199


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_recovery_reads_no_erased_identifier_from_a_restored_log(served, kit, tmp_path):
    ledger, source, settings = served
    backup(settings.db, tmp_path / "backup")
    ledger.at += timedelta(hours=1)
    ledger.authorize(kit.item("after", account_id=ODD))
    LogWriter(ledger.store, tmp_path / "log", rows=3).write()
    before = state(ledger.store)
    ledger.close()
    record(tmp_path)
    for file in tmp_path.glob(f"{settings.db.name}*"):
        file.unlink()
    shutil.copy(tmp_path / "backup", settings.db)
    given = RecoverSettings(campaign_file=tmp_path / "campaign.json", db=settings.db, log_dir=tmp_path / "log")
    assert _recover(given) == 0
    assert list(source().rows(ODD, set())) == []
    assert set(read_log(tmp_path / "log").decisions["account_id"]) == {"erased-1", "b", "b|c"}
    store = settings.open(ledger.campaign)
    assert state(store)[1:] == as_erased(before)[1:]
    store.close()
