"""The path of money in virtual time: right on both stores, the same from the same seed, and faults that are planted."""

import pytest

from benchmarks.simulation import process
from benchmarks.simulation.reference import Violation
from benchmarks.simulation.run import simulate
from serving.ledger.api import corrections
from serving.ledger.clock import Calendar
from serving.ledger.records import Recorded
from serving.ledger.sqlite.authorizations import Authorize
from serving.ledger.sqlite.store import SqliteStore
from shadowprice.pacing.decision_log.tree import leaf

KINDS = ["sqlite", "redis"]
OPERATIONS = 20_000
FOUND_WITHIN = 50_000
"""Operations that each planted fault is found within; they take less than a minute."""
ONCE_MORE = """
        local side, reserved = side_and_reserved(request_id)
        redis.call('HINCRBY', SUMS, 'reserved|' .. side, reserved)
"""

KEPT = "    if kept then\n        return {kept = kept}\n"
DATES = "if STAMP.date < newest - TOLERANCE or far then"


@pytest.fixture(autouse=True)
def server_of_redis(request, tool):
    if "redis" in request.node.name:
        tool("redis-server")


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_that_of_the_reference_whatever_happens_between_two_steps(kind):
    found = simulate(9, OPERATIONS, kind)
    assert found.operations >= OPERATIONS
    faults = {"kill", "stop", "set_clock", "fill", "rage", "lost", "late", "sent twice", "misdated"}
    own = {
        "sqlite": {"killed while it writes"},
        "redis": {"killed meanwhile", "promoted", "witness refused", "set_server_clock", "kill_redis"},
    }
    assert set(found.counts) >= faults | own[kind]
    assert min(found.counts[name] for name in ("authorize", "settle", "correct", "release", "expire", "move")) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_replays_a_run_byte_for_byte_and_another_seed_is_another_run(kind):
    lines, again = [], []
    first = simulate(3, 3_000, kind, size=1_500, lines=lines)
    assert simulate(3, 3_000, kind, size=1_500, lines=again).trace == first.trace
    assert lines == again
    assert simulate(4, 3_000, kind, size=1_500).trace != first.trace


def counted_twice(monkeypatch):
    call = Authorize.__call__

    def twice(job, database):
        answers = call(job, database)
        repeats = [row for answer in answers if isinstance(answer, list) for row in answer if isinstance(row, Recorded)]
        for row in repeats:
            if row.repeat:
                of = row.decision
                database.execute(
                    "UPDATE tally SET reserved = reserved + ? WHERE side = ? AND level = ? AND reason = ?",
                    (of.reserved, of.side, of.level, of.reason),
                )
        return answers

    monkeypatch.setattr(Authorize, "__call__", twice)


def trusting(monkeypatch):
    monkeypatch.setattr(SqliteStore, "_now", lambda store: store._calendar._wall())


@pytest.mark.parametrize("plant", [counted_twice, trusting])
def test_faults_that_are_planted_in_the_store_of_sqlite_are_found(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(Violation, match=r"seed 0, sqlite, round \d+, after \d+ operations: "):
        simulate(0, FOUND_WITHIN, "sqlite")


@pytest.mark.parametrize(
    ("seed", "planted", "said"),
    [
        (1, {KEPT: KEPT.replace("then\n", f"then{ONCE_MORE}")}, "authorize"),
        (
            9,
            {"math.max(math.min(latest, ledger_time + now - seen), ledger_time)": "ledger_time + now - seen"},
            "passed",
        ),
        (3, {"if went_back then": "if false then"}, "lacks records"),
    ],
    ids=["counted twice", "trusting", "promoted behind"],
)
def test_faults_that_are_planted_in_the_scripts_of_redis_are_found(seed, planted, said):
    # The seeds of which the fault is met soonest.
    with pytest.raises(Violation, match=said):
        simulate(seed, FOUND_WITHIN, "redis", planted)


def test_a_decision_that_is_changed_after_it_was_logged_breaks_the_heads(monkeypatch):
    def changed(row):
        return leaf(row._replace(propensity=0.25) if row.request_id == "request-9" else row)

    monkeypatch.setattr(process, "leaf", changed)
    with pytest.raises(Violation, match="heads of the log"):
        simulate(5, 1_000, "sqlite", size=1_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_that_takes_a_correction_of_before_its_decision_is_found(kind, monkeypatch):
    monkeypatch.setattr(corrections, "TOLERANCE", 10**15)
    with pytest.raises(Violation, match=r"a correction of .* is dated"):
        simulate(0, FOUND_WITHIN, kind)


@pytest.mark.parametrize(("kind", "planted"), [("sqlite", {}), ("redis", {DATES: "if false then"})])
def test_caps_that_follow_the_wall_clock_are_found(kind, planted, monkeypatch):
    monkeypatch.setattr(Calendar, "now", lambda calendar: calendar._wall())
    with pytest.raises(Violation, match="is dated"):
        simulate(0, FOUND_WITHIN, kind, planted)
