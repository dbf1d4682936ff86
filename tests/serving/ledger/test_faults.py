"""The ledger killed, cut off, starved and filled up while callers go on; then the ledger is audited."""

import pytest

from benchmarks.faults import stage
from benchmarks.faults.hostile import ATTACKS
from benchmarks.faults.inject import inject
from benchmarks.faults.moves import attack_moves
from serving.portfolio import carry

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
