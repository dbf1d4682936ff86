"""A comparison that may be repeated errs as seldom as it says; one that is meant to be made once does not."""

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.gate import Against, gate
from shadowprice.evaluation.policy.interim import EqualPrice, at_equal_price
from shadowprice.evaluation.policy.joint import Spending, at_budget
from shadowprice.evaluation.statistics.intervals import Estimate, Interval

LEVELS = np.array([0.0, 10.0, 20.0])
PRICE = 0.01
BOUNDS = {"price": PRICE, "largest_value": 1.0, "largest_cost": 20.0, "least_propensity": 1 / 3}
GOOD = {"auc": 0.8, "ece": 0.01, "base_rate": 0.2, "rpr": 0.0}


def world(rows: int, seed: int, gain: float = 0.0) -> tuple[RandomizedRows, np.ndarray, tuple, tuple]:
    """A trial, its true responses (J, N), and two policies' curves; the first is better by what ``gain`` makes of it.

    Two traits that nothing tells apart from outside: each policy knows one of them. Without a gain both matter alike.
    """
    random = np.random.default_rng(seed)
    x = random.normal(size=(2, rows))
    strength = np.array([1.0 + gain, 1.0 - gain])

    def curves(trait: np.ndarray) -> np.ndarray:
        return 0.15 + 0.3 * (LEVELS / 20)[:, None] / (1 + np.exp(-2 * trait))

    truth = 0.5 * (strength[0] * curves(x[0]) + strength[1] * curves(x[1]))
    level = random.integers(0, 3, rows)
    y = (random.random(rows) < truth[level, np.arange(rows)]).astype(float)
    cost = np.repeat(LEVELS[:, None], rows, axis=1)
    trial = RandomizedRows(level=level, value=y, cost=LEVELS[level], propensity=np.full(rows, 1 / 3))
    return trial, truth, (curves(x[0]), cost), (curves(x[1]), cost)


def first(trial: RandomizedRows, policy: tuple, rows: int) -> tuple[RandomizedRows, tuple]:
    """What is known after so many rows."""
    kept = {name: np.asarray(getattr(trial, name))[:rows] for name in ("level", "value", "cost", "propensity")}
    return RandomizedRows(**kept), tuple(each[:, :rows] for each in policy)


def at_equal_spend(known: RandomizedRows, one: tuple, other: tuple, interval: Interval) -> Estimate:
    """The difference at what the trial spent, by the interval of a single analysis."""
    sides = ({"customer": each} for each in (known, one, other))
    spending = Spending(requests={"customer": 1.0}, budget=float(np.mean(known.cost)))
    return at_budget(*sides, spending=spending, estimator="hajek", interval=interval).difference


def promoted(found) -> bool:
    """Whether the gate says so."""
    return gate({"customer": GOOD}, against=Against(value=found)).passed


def test_an_equal_model_is_hardly_ever_promoted_over_many_looks_and_often_where_each_is_taken_for_the_only_one() -> (
    None
):
    replications, looks = 60, range(200, 1601, 200)
    once = every = 0
    for seed in range(replications):
        trial, _, one, two = world(looks[-1], seed)
        at = [(first(trial, one, rows), first(trial, two, rows)[1]) for rows in looks]
        every += any(promoted(at_equal_price(known, a, b, **BOUNDS)) for (known, a), b in at)
        if once > 0.06 * replications:
            continue
        interval = Interval(replications=80)
        once += any(at_equal_spend(known, a, b, interval).low > 0 for (known, a), b in at)
    assert every / replications <= 0.025, "two-sided 95 %: one side errs at most half as often"
    assert once / replications > 0.06


def test_a_better_model_is_promoted_and_sooner_or_later_stays_so() -> None:
    rows = 60_000
    trial, truth, one, two = world(rows, 1, gain=1.0)
    found = at_equal_price(trial, one, two, **BOUNDS)
    net = truth - PRICE * LEVELS[:, None]
    chosen = [(value - PRICE * cost).argmax(axis=0) for value, cost in (one, two)]
    true = float(np.mean(net[chosen[0], np.arange(rows)] - net[chosen[1], np.arange(rows)]))
    assert found.difference.low <= true <= found.difference.high
    assert promoted(found)
    assert not promoted(at_equal_price(trial, two, one, **BOUNDS))
    after = found.sequence.decided()
    assert after is not None
    known, a = first(trial, one, after)
    assert promoted(at_equal_price(known, a, first(trial, two, after)[1], **BOUNDS))


def test_an_account_counts_once_by_the_mean_of_its_rows() -> None:
    trial, _, one, two = world(4000, 2)
    twice = {name: np.tile(np.asarray(getattr(trial, name)), 2) for name in ("level", "value", "cost", "propensity")}
    doubled = RandomizedRows(**twice, account=np.tile(np.arange(4000), 2))
    both = [tuple(np.tile(each, 2) for each in policy) for policy in (one, two)]
    single, repeated = at_equal_price(trial, one, two, **BOUNDS), at_equal_price(doubled, *both, **BOUNDS)
    np.testing.assert_allclose(repeated.sequence.low, single.sequence.low)
    np.testing.assert_allclose(repeated.sequence.high, single.sequence.high)


def test_too_few_effective_rows_promote_nobody() -> None:
    trial, _, one, two = world(60, 3)
    found = at_equal_price(trial, one, two, **BOUNDS)
    assert isinstance(found, EqualPrice)
    result = gate({"customer": GOOD}, against=Against(value=found))
    assert not result.passed
    assert "log more exploration" in result.reasons[0]
    assert "holds at every interim analysis" in result.reasons[0]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"largest_value": 0.5}, "value"),
        ({"largest_cost": 10.0}, "cost"),
        ({"least_propensity": 0.5}, "propensity"),
        ({"least_propensity": 0.0}, "least_propensity"),
        ({"price": -1.0}, "price"),
        ({"largest_cost": np.inf}, "largest_cost"),
    ],
)
def test_what_breaks_the_bounds_is_refused(changed: dict, field: str) -> None:
    trial, _, one, two = world(200, 4)
    with pytest.raises(InvalidInput, match=field):
        at_equal_price(trial, one, two, **{**BOUNDS, **changed})
