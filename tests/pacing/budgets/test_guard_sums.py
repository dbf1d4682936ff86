"""The sum of a second outcome, paced over a replayed day by what the levels given so far are expected to bring."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from shadowprice.campaign import Side
from shadowprice.errors import Unavailable
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.outcomes import NamedCurves, Outcomes
from shadowprice.pacing.replay.run import Replay

CONTACTS: dict[Side, np.ndarray] = {
    "customer": np.array([0.01, 0.015, 0.02, 0.035, 0.06]),
    "merchant": np.array([0.005, 0.01, 0.02, 0.05]),
}
"""Mean support contacts of a request at each level: known, and the same for all accounts."""


def sums(outcomes: Outcomes, side: Side | None = None, since: float = 0.0, until: float = 24.0) -> float:
    """Expected contacts of the decisions of some hours, from the definition."""
    total = 0.0
    for own, means in CONTACTS.items():
        mine = (outcomes.side == own) & (outcomes.at >= since) & (outcomes.at < until)
        total += float(means[outcomes.level[mine]].sum()) if side in (None, own) else 0.0
    return total


@pytest.fixture(name="free", scope="module")
def _free(make_setting: Callable[..., Setting]) -> tuple[Setting, Replay]:
    """A day without the limit, and how it is decided."""
    plain = make_setting(1, requests=5_000)
    model = {
        side: NamedCurves(own.account_id, replace(own.curves, guards={"x_contacts": CONTACTS[side]}))
        for side, own in plain.model.items()
    }
    setting = replace(plain, model=model)
    return setting, run_pacer(setting, make_pacer("hourly"), hard_stop=True)


def limited(setting: Setting, *budgets: GroupBudget, zone: str = "UTC") -> Setting:
    return replace(setting, campaign=replace(setting.campaign, limits=Limits(budgets=budgets, time_zone=zone)))


def guard(limit: float, **changes: object) -> GroupBudget:
    return replace(GroupBudget(name="calm", limit=limit, outcome="x_contacts"), **changes)  # type: ignore[arg-type]


def test_the_sum_of_a_campaign_ends_at_its_limit_that_the_plain_campaign_exceeds(free: tuple[Setting, Replay]) -> None:
    setting, plain = free
    limit = 0.75 * sums(plain.outcomes)
    run = run_pacer(limited(setting, guard(limit)), make_pacer("hourly"), hard_stop=True)
    # Within 1 % of the limit, which the plain campaign exceeds by a third.
    assert sums(run.outcomes) == pytest.approx(limit, rel=0.01)
    records = [found.record for _, found in run.prices]
    assert all(record.prices["calm"] > 0 for record in records)
    for record in records:
        # A plan begins with what was decided so far, and ends at the limit.
        assert record.plans["calm"][0] == pytest.approx(sums(run.outcomes, until=record.at), rel=1e-6, abs=1e-9)
        if record.status == "optimal":
            assert record.plans["calm"][-1] == pytest.approx(limit, rel=0.01)
    assert max(abs(record.pacing_errors["calm"]) for record in records[6:]) < 0.15


def test_each_day_of_the_time_zone_has_its_own_sum(free: tuple[Setting, Replay]) -> None:
    setting, plain = free
    # There, 14 h of UTC is midnight. The traffic of the last hour is not known when its price is set: 5 %.
    parts = sums(plain.outcomes, "customer", until=14.0), sums(plain.outcomes, "customer", since=14.0)
    limit = 0.8 * min(parts)
    daily = guard(limit, period="day", side="customer")
    run = run_pacer(limited(setting, daily, zone="Australia/Brisbane"), make_pacer("hourly"), hard_stop=True)
    assert sums(run.outcomes, "customer", until=14.0) == pytest.approx(limit, rel=0.05)
    assert sums(run.outcomes, "customer", since=14.0) == pytest.approx(limit, rel=0.05)
    midnight = next(found.record for at, found in run.prices if at == 14.0)
    assert midnight.plans["calm"][0] == 0.0


def test_a_sum_that_is_used_up_is_held_by_the_dearest_price_and_every_hour_has_one(
    free: tuple[Setting, Replay],
) -> None:
    setting, plain = free
    least = sum(means.min() * int((plain.outcomes.side == side).sum()) for side, means in CONTACTS.items())
    run = run_pacer(limited(setting, guard(1.02 * least)), make_pacer("hourly"), hard_stop=True)
    assert len(run.prices) == 24
    # Luck of the traffic makes the limit impossible: every request has nearly its least.
    assert least <= sums(run.outcomes) <= 1.06 * least


def test_a_first_price_that_cannot_meet_the_sum_is_refused(free: tuple[Setting, Replay]) -> None:
    setting, plain = free
    with pytest.raises(Unavailable, match="first solve was not certified"):
        run_pacer(limited(setting, guard(0.2 * sums(plain.outcomes))), make_pacer("hourly"), hard_stop=True)
