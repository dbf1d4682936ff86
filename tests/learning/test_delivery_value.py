"""The value of a plan by held-out deliveries, against known truth, and the gate that reads it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shadowprice.allocation.exact_sizes import greedy_demands, solve_demands
from shadowprice.campaign import Segment, may_enter
from shadowprice.currency import Currency
from shadowprice.datasets.funds import FundOptions, Funds, deliver_again, draw
from shadowprice.errors import InvalidInput
from shadowprice.learning.delivery_value import DRAWS, RANDOM, PlanValue, plan_value

DRAWN = FundOptions(users=1200, funds=4, deliveries=6, merchants=120)


@pytest.fixture(scope="module")
def drawn() -> Funds:
    return draw(DRAWN, seed=3)


def judged(drawn: Funds, value: np.ndarray, held_out: pd.DataFrame, fee: float = 1.0) -> PlanValue:
    segments = [
        Segment(name=f"fund-{j}", demand=int(size), risk_level=int(risk), fee=fee)
        for j, (size, risk) in enumerate(zip(drawn.demand, drawn.risk_level, strict=True))
    ]
    users = drawn.users
    tolerance = users["risk_tolerance"].to_numpy(dtype=float)
    names = users["account_id"].to_numpy(dtype=str)
    allowed = may_enter(segments, tolerance)
    return plan_value(names, value.astype(np.float32), allowed, segments, held_out, drawn.deliveries)


def test_the_gain_over_random_placing_is_the_true_one_within_its_interval(drawn: Funds) -> None:
    """Known truth of the plan and of the same random placings, over 60 logs of the same accounts."""
    truth, users = drawn.value, np.arange(DRAWN.users)
    plan = solve_demands(truth.astype(np.float32), drawn.demand, drawn.allowed).segment
    random = np.random.default_rng(0)
    drawn_values = [random.random(truth.shape, dtype=np.float32) for _ in range(DRAWS)]
    placed = [solve_demands(each, drawn.demand, drawn.allowed).segment for each in drawn_values]
    gain = truth[plan, users].mean() - np.mean([truth[each, users].mean() for each in placed])
    found = [judged(drawn, truth, deliver_again(drawn, 6, seed)) for seed in range(60)]
    estimates = np.array([each.gain[RANDOM].value for each in found])
    assert abs(estimates.mean() - gain) < 3 * estimates.std(ddof=1) / np.sqrt(60)
    covered = np.mean([each.gain[RANDOM].low <= gain <= each.gain[RANDOM].high for each in found])
    # Amounts have a heavy tail: 95 % is reached by more accounts.
    assert covered >= 0.85
    values = np.array([each.value.value for each in found])
    assert abs(values.mean() - truth[plan, users].mean()) < 3 * values.std(ddof=1) / np.sqrt(60)


def test_a_plan_of_the_truth_passes_and_one_of_its_opposite_is_refused(drawn: Funds) -> None:
    held_out = deliver_again(drawn, 40)
    good = judged(drawn, drawn.value, held_out).gate(Currency())
    assert good.passed
    assert good.checks[0].rule.startswith("value of the plan on held-out deliveries above that of random")
    assert "[$" in good.checks[0].found
    bad = judged(drawn, drawn.value.max() - drawn.value, held_out)
    assert bad.gain[RANDOM].value < 0 < bad.predicted
    assert not bad.gate(Currency()).passed
    assert "greedy" in bad.gain
    assert not any(each.required for each in good.checks[1:])


def test_half_the_fee_is_half_the_value(drawn: Funds) -> None:
    whole, half = (judged(drawn, drawn.value, drawn.deliveries, fee) for fee in (1.0, 0.5))
    assert half.value.value == pytest.approx(whole.value.value / 2, rel=1e-9)
    assert half.predicted == pytest.approx(whole.predicted / 2, rel=1e-6)
    assert half.gain[RANDOM].low == pytest.approx(whole.gain[RANDOM].low / 2, rel=1e-6)


def test_a_log_without_propensities_judges_nothing(drawn: Funds) -> None:
    with pytest.raises(InvalidInput, match=r"exposure.propensity: must be the logged chance of every delivery"):
        judged(drawn, drawn.value, drawn.deliveries.assign(propensity=np.nan))


def test_greedy_serves_the_accounts_in_turn(drawn: Funds) -> None:
    """Against a loop, with every account eligible so that nobody is left over."""
    free = drawn.demand.copy()
    expected = []
    for own in drawn.value.T:
        expected.append(int(np.where(free > 0, own, -np.inf).argmax()))
        free[expected[-1]] -= 1
    assert greedy_demands(drawn.value, drawn.demand).segment.tolist() == expected
    masked = greedy_demands(drawn.value, drawn.demand, drawn.allowed)
    assert (masked.status, masked.ineligible) == ("feasible", 0)
    assert masked.objective <= solve_demands(drawn.value, drawn.demand, drawn.allowed).objective
    assert replace(masked, status="feasible").sizes.tolist() == drawn.demand.tolist()
