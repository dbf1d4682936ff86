"""Worth of policies, against enumeration of every assignment, closed forms, and trials of known truth."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from benchmarks.trials import draw
from research.tables.worth import SHAPES, covered, estimate, in_sequence
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.flat_before import flat_before
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.judged import Flat, Judged, Stage
from shadowprice.evaluation.policy.uniform import best_flat
from shadowprice.evaluation.policy.worth import Worth, mean_weights, worth

VALUE = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
"""(levels, accounts): outcome of each account at each level."""
COST = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 5.0]])
CHANCE = np.array([[0.5, 0.25, 0.4], [0.5, 0.75, 0.6]])
EXPECTED = (np.array([[0.3, 0.3, 0.3], [0.9, 1.4, 1.2]]), np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 4.0]]))
CHOSEN = np.array([[0, 0, 0], [1, 0, 1]])
MIXTURE = Flat(shares={"customer": np.array([[1.0, 0.0], [0.4, 0.6]])}, marginal=np.array([0.2, 0.3]))


def judged(level: np.ndarray) -> Worth:
    at = np.arange(3)
    trial = RandomizedRows(
        level=level,
        value=VALUE[level, at],
        cost=COST[level, at],
        propensity=CHANCE[level, at],
        account=np.array(["a", "b", "c"]),
        expected_value=EXPECTED[0],
        expected_cost=EXPECTED[1],
    )
    rows = Judged(trial=trial, chosen=CHOSEN, truth=(VALUE, COST))
    return worth([Stage(rows={"customer": rows}, flat=MIXTURE)], {"customer": 30.0}, (0.5, 1.0), 100.0)


def test_over_all_assignments_the_mean_of_each_estimate_is_the_truth() -> None:
    mean = dict.fromkeys(("value", "cost", "lowest", "flat", "flat_lowest"), 0.0)
    area = 0.0
    for level in product((0, 1), repeat=3):
        chance = float(np.prod(CHANCE[list(level), np.arange(3)]))
        found = judged(np.array(level))
        for name in mean:
            mean[name] += chance * getattr(found.points[1], name).value
        area += chance * found.flat.value
    value, cost = 30 * (1 + 1 + 2) / 3, 30 * (3 + 0 + 5) / 3
    flat = 30 * (0.4 * VALUE[0].mean() + 0.6 * VALUE[1].mean())
    flat += 0.3 * (cost - 30 * 0.6 * COST[1].mean())
    lowest = 30 * VALUE[0].mean()
    expected = {
        "value": value,
        "cost": cost,
        "lowest": value - lowest,
        "flat": value - flat,
        "flat_lowest": flat - lowest,
    }
    assert mean == pytest.approx(expected, rel=1e-12)
    # At the first budget policy and mixture are both the lowest level.
    assert area == pytest.approx((0.0 + expected["flat"]) / 2, rel=1e-12)


def test_policies_that_decide_alike_differ_by_nothing_and_without_width() -> None:
    first = judged(np.array([0, 1, 1])).points[0]
    for found in (first.lowest, first.flat, first.flat_lowest):
        assert (found.low, found.value, found.high) == (0.0, 0.0, 0.0)
    assert first.each is None


def test_the_truth_is_exact_where_it_is_known() -> None:
    now = judged(np.array([0, 1, 1])).points[1]
    assert now.true_lowest == pytest.approx(30 * (1 + 1 + 2) / 3 - 10.0)
    # The best mixture with the true means, at the true cost of the policy.
    means = {"customer": VALUE.mean(axis=1)}, {"customer": COST.mean(axis=1)}
    flat = best_flat(*means, limit=80.0, requests={"customer": 30.0}).value
    assert now.true_flat == pytest.approx(40.0 - flat)


def test_intervals_are_t_intervals_of_the_mean_score_and_that_of_a_ratio_is_fiellers() -> None:
    rng = np.random.default_rng(0)
    n = 400
    level = rng.integers(0, 2, n)
    y, paid = rng.normal(1 + level, 1.0), level * rng.exponential(2.0, n)
    trial = RandomizedRows(
        level=level,
        value=y,
        cost=paid,
        propensity=np.full(n, 0.5),
        account=np.arange(n),
        expected_value=np.zeros((2, n)),
        expected_cost=np.zeros((2, n)),
    )
    flat = Flat(shares={"customer": np.array([[0.5, 0.5]])}, marginal=np.array([0.0]))
    stage = Stage(rows={"customer": Judged(trial=trial, chosen=np.ones((1, n), dtype=int))}, flat=flat)
    now = worth([stage], {"customer": 1.0}, (1.0,), 10.0).points[0]
    score = 2 * y * (2 * level - 1)
    error = stats.t.ppf(0.975, n - 1) * score.std(ddof=1) / np.sqrt(n)
    assert (now.lowest.low, now.lowest.high) == pytest.approx((score.mean() - error, score.mean() + error))
    money = 2 * paid * level
    for ratio in (now.each.low, now.each.high):
        rest = money - ratio * score
        assert abs(stats.ttest_1samp(rest, 0.0).statistic) == pytest.approx(stats.t.ppf(0.975, n - 1), rel=1e-6)


def test_partners_that_share_shocks_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    n = 2000
    partner = rng.integers(0, 25, n)
    level = (rng.random(25) < 0.5).astype(int)[partner]
    y = level + rng.normal(size=25)[partner] + 0.1 * rng.normal(size=n)
    trial = RandomizedRows(
        level=level,
        value=y,
        cost=level * 1.0,
        propensity=np.full(n, 0.5),
        account=np.arange(n),
        expected_value=np.tile([[0.0], [1.0]], n),
        expected_cost=np.tile([[0.0], [1.0]], n),
    )
    flat = Flat(shares={"customer": np.array([[1.0, 0.0]])}, marginal=np.array([0.0]))

    def width(trial: RandomizedRows) -> float:
        stage = Stage(rows={"customer": Judged(trial=trial, chosen=np.ones((1, n), dtype=int))}, flat=flat)
        found = worth([stage], {"customer": 1.0}, (1.0,), 1.0).points[0].lowest
        return found.high - found.low

    assert width(replace(trial, partner=partner)) > 4 * width(trial)


def test_the_mixture_before_is_that_of_the_other_rows_and_leaves_out_a_level_without_rows() -> None:
    level = np.array([0, 0, 1, 1, 3, 3])
    value, cost = np.array([0.0, 1.0, 2.0, 2.0, 3.0, 3.0]), np.array([0.0, 0.0, 2.0, 2.0, 10.0, 10.0])
    trial = RandomizedRows(level=level, value=value, cost=cost, propensity=np.full(6, 1 / 3))
    found = flat_before({"customer": trial}, {"customer": 4}, {"customer": 2.0}, np.array([0.0, 2.0, 12.0, 99.0]))
    assert found.shares["customer"] == pytest.approx(
        np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1]])
    )
    assert found.marginal == pytest.approx([1.5 / 2, 1.5 / 2, 1.0 / 8, 0.0])


def test_the_area_is_that_under_the_line_through_the_points() -> None:
    grid, line = np.array([0.0, 0.5, 2.0]), np.array([0.0, 3.0, 1.0])
    assert float(mean_weights(grid) @ line) == pytest.approx(np.trapezoid(line, grid) / 2.0)


def test_arguments_that_do_not_fit_are_named() -> None:
    stage = Stage(rows={}, flat=MIXTURE)
    with pytest.raises(InvalidInput, match="requests"):
        worth([stage], {"customer": 1.0}, (0.5, 1.0), 1.0)
    with pytest.raises(InvalidInput, match="ascending"):
        mean_weights(np.array([1.0, 0.5]))
    good = judged(np.array([0, 1, 1]))
    assert good.rows == {"customer": 3}
    assert good.accounts == {"customer": 3}


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_cover_the_truth_on_trials_of_three_shapes(shape: str) -> None:
    """An interval of 95 % misses 12 or more of 60 draws once in 30,000."""
    held: dict[str, int] = {}
    for seed in range(60):
        trial = draw(shape, seed=seed, accounts=3000)
        found = estimate(trial, in_sequence(3000, np.random.default_rng(seed)))
        for name, inside in covered(found).items():
            held[name] = held.get(name, 0) + inside
    assert min(held.values()) >= 49, held


def test_without_an_effect_the_difference_to_flat_is_nothing_and_its_interval_is_as_wide_as_its_luck() -> None:
    found = []
    for seed in range(100):
        trial = draw("bonus", seed=seed, accounts=1500, effect=0.0)
        each = estimate(trial, in_sequence(1500, np.random.default_rng(seed))).flat
        found.append((each.value, (each.high - each.low) / 2 / 1.96))
    values, errors = np.array(found).T
    assert abs(values.mean()) < 3.5 * values.std() / np.sqrt(values.size)
    # The standard deviation over 100 draws has an error of 7 %.
    assert 0.8 < values.std() / errors.mean() < 1.22
