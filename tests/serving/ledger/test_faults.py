"""The ledger killed, cut off, starved and filled up while callers go on; then the ledger is audited."""

import sqlite3
from contextlib import closing

import pytest
import redis

from benchmarks.faults import stage
from benchmarks.faults.audit import audit
from benchmarks.faults.hostile import ATTACKS
from benchmarks.faults.inject import inject
from benchmarks.faults.load import Witness
from benchmarks.faults.moves import attack_moves
from serving.ledger.redis.layout import keys
from serving.ledger.redis.store import RedisStore
from serving.portfolio import carry
from shadowprice.limits import Asked

NETWORK = {"ledger killed", "network cut", "network silent", "network slow", "disk full", "clock ahead", *ATTACKS}
STORE = {"redis killed", "store cut", "store silent", "store slow", "store's clock ahead", "lagging replica promoted"}


def check(result, kinds):
    assert set(result.injected) == kinds
    assert vars(result.audit) == vars(result.audit) | dict.fromkeys(COUNTS, 0)
    assert result.witness.refused == {}
    # The faults were felt, and the callers went on.
    assert result.witness.unavailable > 0
    assert result.audit.decisions > 50
    assert result.audit.captures > 10
    assert result.audit.spent > 0
    # Caps and further budgets were reached meanwhile.
    assert result.audit.limited > 0
    assert max(max(waits) for waits in result.recovery_seconds.values()) <= 5.0


COUNTS = (
    "overspent",
    "limits_exceeded",
    "levels_miscounted",
    "decisions_lost",
    "answers_contradicted",
    "captures_lost",
    "captures_twice",
    "sums_wrong",
    "log_differs",
    "refusals",
)


def test_nothing_is_lost_doubled_or_overspent_whatever_happens_to_a_ledger_in_sqlite(tmp_path):
    check(inject(tmp_path, "sqlite", len(NETWORK)), NETWORK)


def test_nor_in_redis_whatever_happens_to_that(tmp_path, tool):
    tool("redis-server")
    check(inject(tmp_path, "redis", len(NETWORK | STORE)), NETWORK | STORE)


@pytest.mark.parametrize("change", [-1, 2])
def test_the_audit_finds_a_count_of_a_level_that_somebody_changed(open_ledger, kit, tmp_path, request, change):
    campaign = kit.campaign(limit=10**6, limits=stage.limits_of(10**6))
    ledger = open_ledger(campaign)
    ledger.authorize(*(kit.item(f"r{row}", level=row % 3) for row in range(9)), kit.item("m", "merchant", 1))
    witness = Witness()
    found = audit(ledger.store, campaign, witness, 0, tmp_path / "log")
    assert (found.clean, found.decisions) == (True, 10)
    (name,) = campaign.limits.sums_by_level(Asked("a", "merchant", "", ""), ledger.date)
    assert ledger.store.usage([f"{name}1"])[f"{name}1"].uses == 1
    (name, _) = campaign.limits.sums_by_level(Asked("a", "customer", "", ""), ledger.date)
    if isinstance(ledger.store, RedisStore):
        with redis.Redis.from_url(request.getfixturevalue("durable_redis").url) as client:
            client.hincrby(*keys(campaign.name, names=("limit_count",)), f"{name}2", change)
    else:
        with closing(sqlite3.connect(tmp_path / f"{campaign.name}.db")) as database, database:
            database.execute("UPDATE limit_usage SET count = count + ? WHERE name = ?", (change, f"{name}2"))
    spoiled = audit(ledger.store, campaign, witness, 0, tmp_path / "log")
    assert (spoiled.levels_miscounted, spoiled.clean) == (abs(change), False)
    assert vars(spoiled) == vars(found) | {"levels_miscounted": abs(change)}


def test_a_disk_is_full_also_for_those_who_may_not_mount_one(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "_mount", lambda disk: False)
    result = inject(tmp_path, "sqlite", 2, kinds=["disk full"])
    assert (result.audit.clean, result.injected["disk full"]) == (True, 2)
    assert result.witness.unavailable > 0


def test_attacks_on_moves_grant_nothing_twice_and_lose_nothing_though_the_ledger_is_killed(tmp_path):
    found = attack_moves(tmp_path, "sqlite", 2, 1.5)
    assert min(found[what] for what in ("killed", "taken", "sent", "replayed", "Conflict", "watched", "decisions")) > 0


def test_attacks_on_moves_find_a_coordinator_that_gives_back_what_was_taken(tmp_path, monkeypatch):
    def returned(move, ledgers):
        ledgers[move.target].move(move.target, "take", move)
        return ledgers[move.source].move(move.source, "finish", move, "returned")

    monkeypatch.setattr(carry, "finish", returned)
    with pytest.raises(AssertionError, match="after none"):
        attack_moves(tmp_path, "sqlite", 1, 1.0)
