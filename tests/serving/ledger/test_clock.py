"""Clocks that jump: nothing expires early, nothing is spent twice, and outcomes with wrong dates are booked."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
import redis

from serving.ledger.api.skew import ClockSkew
from serving.ledger.clock import microseconds, monotonic
from serving.ledger.log import LogWriter
from serving.ledger.opening import open_store
from serving.ledger.records import Dates
from serving.recover import recover
from shadowprice.errors import Unavailable
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.decision_log.segments import segments
from shadowprice.pacing.decision_log.served import exposure_and_outcome, read_log
from shadowprice.tables import validate_some

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


def incentives(recorded):
    return [each.decision.incentive for each in recorded]


def every(ledger, *passing):
    """Sweep each of the times that pass; returns how many authorizations expired."""
    expired = 0
    for step in passing:
        ledger.at += step
        expired += ledger.sweep()
    return expired


def test_a_clock_four_days_ahead_for_eight_seconds_expires_nothing_and_nothing_is_spent_twice(open_ledger, kit):
    ledger = open_ledger(limit=130)
    assert incentives(ledger.authorize(kit.item("a", level=2))) == [130]
    ledger.wrong = 4 * DAY
    assert every(ledger, 4 * SECOND, 4 * SECOND) == 0
    assert incentives(ledger.authorize(kit.item("b", level=2))) == [0]
    ledger.wrong = timedelta(0)
    assert incentives(ledger.authorize(kit.item("c", level=2))) == [0]
    assert ledger.settle(kit.event("a", 130, at=ledger.at), kit.event("b", 0), kit.event("c", 0)) == (3, 0)
    assert ledger.money() == (0, 130)
    assert ledger.store.totals().late["customer"] == 0


def test_a_clock_that_is_ahead_when_an_outcome_comes_does_not_make_it_late(open_ledger, kit):
    ledger = open_ledger(limit=130)
    ledger.authorize(kit.item("a", level=2))
    ledger.wrong = 4 * DAY
    ledger.settle(kit.event("a", 130, at=ledger.at))
    assert [row.late for row in ledger.store.outcomes_after(0, 1)] == [False]


def test_a_clock_that_oscillates_neither_shortens_nor_lengthens_an_authorization(open_ledger, kit):
    ledger = open_ledger(authorization_ttl_hours=2.0)
    ledger.authorize(kit.item("a"))
    for number in range(19):
        ledger.wrong = (-1) ** number * 4 * DAY
        assert every(ledger, 0.1 * HOUR) == 0
    ledger.wrong = -4 * DAY
    assert every(ledger, 0.1 * HOUR - timedelta(microseconds=1)) == 0
    assert every(ledger, timedelta(microseconds=1)) == 1


def test_a_restart_does_not_shorten_an_authorization_and_downtime_does_not_count(open_ledger, kit):
    first = open_ledger(authorization_ttl_hours=2.0)
    first.authorize(kit.item("a"))
    assert every(first, 1.5 * HOUR) == 0
    first.close()
    again = open_ledger(first.campaign)
    again.jump(microseconds(kit.now + 4 * DAY) - microseconds(kit.now))
    again.wrong = 4 * DAY
    assert every(again, 0.5 * HOUR - timedelta(microseconds=1)) == 0
    assert every(again, timedelta(microseconds=1)) == 1


def test_a_ledger_that_is_killed_holds_authorizations_longer_at_most_by_one_sweep(kit, tmp_path):
    campaign = kit.campaign(authorization_ttl_hours=2.0)
    ledger = kit.open(campaign, tmp_path / "ledger.db")
    ledger.authorize(kit.item("a"))
    every(ledger, HOUR)
    ledger.at += 5 * SECOND
    with (
        closing(sqlite3.connect(tmp_path / "ledger.db")) as live,
        closing(sqlite3.connect(tmp_path / "killed")) as copy,
    ):
        live.backup(copy)
    ledger.close()
    again = kit.open(campaign, tmp_path / "killed")
    assert every(again, HOUR - timedelta(microseconds=1)) == 0
    assert every(again, timedelta(microseconds=1)) == 1
    again.close()


ONCE = Limits(caps=(Cap(name="once", per="account", count=1, period="day"),))


def paid(ledger, kit, name):
    (found,) = ledger.authorize(kit.item(name))
    return found.decision.incentive > 0


def test_an_account_has_its_cap_of_a_day_once_whatever_a_running_clock_shows(open_ledger, kit):
    ledger = open_ledger(limits=ONCE)
    given = 0
    for number in range(40):
        ledger.wrong = number * (-1) ** number * DAY
        given += paid(ledger, kit, f"r{number}")
    assert given == 1
    assert {row.decided_at for row in ledger.store.decisions_after(0, 50)} == {microseconds(kit.now)}
    ledger.at += DAY
    assert [paid(ledger, kit, "next"), paid(ledger, kit, "again")] == [True, False]


def test_an_account_has_its_cap_once_where_a_ledger_starts_with_a_clock_that_is_behind(open_ledger, kit):
    ledger = open_ledger(limits=ONCE)
    ledger.at += 2 * DAY
    given = [paid(ledger, kit, "first")]
    for back in range(1, 5):
        ledger.sweep()
        ledger.close()
        ledger = open_ledger(ledger.campaign, wrong=-back * DAY)
        given.append(paid(ledger, kit, f"r{back}"))
    assert given == [True, False, False, False, False]
    assert ledger.date == kit.now + 2 * DAY


def test_replicas_of_one_redis_agree_on_the_day_of_a_cap(kit, durable_redis, tmp_path):
    campaign = kit.campaign(limits=ONCE)
    right = kit.open(campaign, tmp_path, durable_redis.url)
    assert paid(right, kit, "first")
    behind = kit.open(campaign, tmp_path, durable_redis.url, wrong=-3 * DAY)
    assert not paid(behind, kit, "behind")
    # The clock of this Redis is right today, and no ledger may go beyond it.
    ahead = kit.open(campaign, tmp_path, durable_redis.url, wrong=datetime.now(UTC) + DAY - kit.now)
    for number in range(3):
        with pytest.raises(Unavailable, match="ahead of the clock of Redis; set both clocks right"):
            ahead.authorize(kit.item(f"ahead-{number}"))
    ahead.wrong = timedelta(0)
    with pytest.raises(Unavailable, match="ahead of the clock of Redis"):
        ahead.authorize(kit.item("once more"))
    assert not paid(ahead, kit, "corrected")
    for ledger in (right, behind, ahead):
        ledger.close()


@pytest.fixture
def two(kit, durable_redis, tmp_path):
    """Two ledgers over the ledger of one Redis."""
    campaign = kit.campaign(limit=130, authorization_ttl_hours=2.0)
    both = [kit.open(campaign, tmp_path, durable_redis.url) for _ in range(2)]
    yield both
    for ledger in both:
        ledger.close()


def test_one_of_two_ledgers_ahead_expires_nothing_of_the_other(two, kit):
    right, ahead = two
    ahead.wrong = 4 * DAY
    right.authorize(kit.item("a", level=2))
    assert every(ahead, 4 * SECOND, 4 * SECOND) == 0
    assert incentives(ahead.authorize(kit.item("b", level=2))) == [0]
    # Not by its monotonic clock either: Redis has not seen that time pass.
    ahead.watch.now += 4 * 86_400_000_000
    assert ahead.sweep() == 0
    # It was the first to have that date, so the other takes it over.
    with pytest.raises(Unavailable, match="is before 2024-05-05"):
        right.settle(kit.event("a", 130, at=right.at))
    right.settle(kit.event("a", 130, at=right.at))
    assert right.money() == (0, 130)


def test_time_that_two_ledgers_both_see_passes_once(two, kit):
    one, other = two
    one.authorize(kit.item("a", level=2))
    for _ in range(20):
        assert one.sweep() + other.sweep() == 0
        other.watch.now += 360_000_000
        one.at += 0.1 * HOUR - SECOND
    assert one.sweep() + other.sweep() == 0
    assert every(one, 20 * SECOND) == 1


@pytest.mark.parametrize("days", [4, -4])
def test_a_jump_of_the_clock_of_redis_expires_nothing(two, kit, days):
    ledger, other = two
    ledger.authorize(kit.item("a", level=2))
    for _ in range(3):
        ledger.jump(days * 86_400_000_000)
        assert every(ledger, SECOND) + every(other, SECOND) == 0
    assert every(ledger, 2 * HOUR) == 1


def test_a_jump_of_the_clock_of_redis_counts_no_time_that_another_ledger_has_counted(two, kit):
    ledger, other = two
    ledger.authorize(kit.item("a", level=2))
    assert every(other, HOUR) == 0
    # The first has not called for an hour, of which the other has told.
    ledger.watch.now += 3_600_000_000
    ledger.jump(4 * 86_400_000_000)
    assert ledger.sweep() == 0
    assert every(other, HOUR - timedelta(microseconds=1)) == 0
    assert every(other, timedelta(microseconds=1)) == 1


def test_a_call_that_redis_did_not_run_counts_its_time_once(two, kit, durable_redis):
    ledger, _ = two
    ledger.authorize(kit.item("a", level=2))
    ledger.at += HOUR
    with redis.Redis.from_url(durable_redis.url) as client:
        client.script_flush()
    assert ledger.sweep() == 0
    assert every(ledger, HOUR - timedelta(microseconds=1)) == 0
    assert every(ledger, timedelta(microseconds=1)) == 1


def test_a_call_whose_answer_was_lost_does_not_count_its_time_twice(two, kit, monkeypatch):
    ledger, _ = two
    ledger.authorize(kit.item("a", level=2))
    ledger.at += HOUR
    execute, sent = redis.client.Pipeline.execute, []

    def losing(pipeline, raise_on_error=True):
        answers = execute(pipeline, raise_on_error)
        sent.append(answers)
        if len(sent) == 1:
            ledger.jump(3_600_000_000)
            raise redis.ConnectionError("the answer was lost")
        return answers

    monkeypatch.setattr(redis.client.Pipeline, "execute", losing)
    assert ledger.sweep() == 0
    assert len(sent) == 2
    assert every(ledger, HOUR - timedelta(microseconds=1)) == 0
    assert every(ledger, timedelta(microseconds=1)) == 1


@pytest.mark.parametrize("hours", [1, -1])
def test_an_outcome_dated_by_another_clock_is_booked_and_flagged_and_logged(open_ledger, kit, tmp_path, hours):
    ledger = open_ledger()
    ledger.authorize(kit.item("a"), kit.item("b"))
    ledger.at += 60 * SECOND
    wrong, right = ledger.at + hours * HOUR, ledger.at + 4 * 60 * SECOND
    assert ledger.settle(kit.event("a", 50, at=wrong), kit.event("b", 50, at=right)) == (2, 0)
    assert ledger.settle(kit.event("a", 50, at=wrong)) == (0, 1)
    assert (ledger.money(), ledger.store.totals().misdated["customer"]) == ((0, 100), 1)
    assert [row.misdated for row in ledger.store.outcomes_after(0, 2)] == [True, False]

    writer = LogWriter(ledger.store, tmp_path / "log")
    writer.write()
    log = read_log(writer.folder)
    assert log.outcomes[["observed_at", "misdated"]].to_numpy().tolist() == [
        [pd.Timestamp(wrong), True],
        [pd.Timestamp(right), False],
    ]
    exposure, outcome = exposure_and_outcome(log, ledger.campaign)
    assert outcome["observed_at"].tolist() == [pd.Timestamp(ledger.at), pd.Timestamp(right)]
    validate_some({"exposure": exposure, "outcome": outcome})
    other = open_ledger()
    recover(other.store, other.campaign, log)
    assert other.store.outcomes_after(0, 2) == ledger.store.outcomes_after(0, 2)


@pytest.mark.parametrize("date", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)])
def test_no_date_of_an_outcome_is_too_wrong_to_be_logged_and_recovered(open_ledger, kit, tmp_path, date):
    ledger, other = open_ledger(), open_ledger()
    ledger.authorize(kit.item("a"))
    assert ledger.settle(kit.event("a", 50, at=date)) == (1, 0)
    LogWriter(ledger.store, tmp_path / "log").write()
    log = read_log(tmp_path / "log")
    assert exposure_and_outcome(log, ledger.campaign)[1]["observed_at"].tolist() == [pd.Timestamp(ledger.at)]
    recover(other.store, other.campaign, log)
    assert other.store.outcomes_after(0, 1) == ledger.store.outcomes_after(0, 1)


def test_an_outcome_a_little_before_its_decision_is_read_as_of_the_decision(ledger, kit, tmp_path):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50, at=ledger.at - 60 * SECOND))
    LogWriter(ledger.store, tmp_path / "log").write()
    exposure, outcome = exposure_and_outcome(read_log(tmp_path / "log"), ledger.campaign)
    assert outcome["observed_at"].tolist() == [pd.Timestamp(ledger.at)]
    validate_some({"exposure": exposure, "outcome": outcome})


def test_segments_of_before_dates_were_judged_flag_none(ledger, kit, tmp_path):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50))
    LogWriter(ledger.store, tmp_path / "log").write()
    (segment,) = segments(tmp_path / "log", "outcomes")
    pq.write_table(pq.read_table(segment.path).drop_columns("misdated"), segment.path)
    assert read_log(tmp_path / "log").outcomes["misdated"].tolist() == [False]


def test_recovered_authorizations_have_a_whole_time_to_live_whatever_the_dates_of_the_log(open_ledger, kit, tmp_path):
    ledger = open_ledger(limit=10**9, authorization_ttl_hours=2.0)
    for number, wrong in enumerate((0 * DAY, 4 * DAY, -4 * DAY, 4 * DAY)):
        ledger.wrong = wrong
        ledger.authorize(kit.item(f"r{number}"))
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger(limit=10**9, authorization_ttl_hours=2.0)
    recover(other.store, other.campaign, read_log(tmp_path / "log"))
    assert every(other, 2 * HOUR - SECOND) == 0
    assert every(other, SECOND) == 4


def test_skew_is_the_largest_difference_from_any_other_source_of_time():
    now = SimpleNamespace(wall=10**15, watch=5, recorded=None, server=None)
    skew = ClockSkew(lambda: Dates(now.recorded, now.server), lambda: now.watch, lambda: now.wall)
    assert skew.seconds() == 0
    now.watch += 7_000_000
    now.wall += 10_000_000
    assert skew.seconds() == 3
    # A decision of before is no sign of anything; one that is still to come is.
    now.recorded = 10**15
    assert skew.seconds() == 3
    now.recorded = now.wall + 4_000_000
    assert skew.seconds() == -4
    now.server = now.wall - 5_000_000
    assert skew.seconds() == 5


def test_a_store_tells_the_dates_that_it_knows(ledger, kit, request):
    of_redis = "redis" in request.node.name
    assert ledger.store.dates().recorded is None
    ledger.authorize(kit.item("a"))
    ledger.wrong = DAY
    ledger.at += HOUR
    ledger.authorize(kit.item("m", side="merchant"))
    before = microseconds(datetime.now(UTC))
    dates = ledger.store.dates()
    # The date of the last that was recorded, whatever the wall clock shows meanwhile.
    assert dates.recorded == microseconds(kit.now + HOUR)
    assert (dates.server is not None) == of_redis
    assert dates.server is None or abs(dates.server - before) < 10_000_000


def test_the_default_clock_goes_on(kit, tmp_path):
    assert monotonic() <= monotonic()
    store = open_store(kit.campaign(), tmp_path / "ledger.db")
    assert store.expire(microseconds(kit.now)).result(20) == 0
    store.close()
