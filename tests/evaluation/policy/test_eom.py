import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.evaluation.statistics.intervals import Interval

J = 3


def population(rows: int, seed: int):
    """Expected value and cost (J, N), and curves that know them only roughly."""
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    value = np.stack([np.zeros(rows), 0.5 + 0.5 * x, 0.8 + x]) + 2.0
    cost = np.stack([np.full(rows, 0.1), np.full(rows, 0.5), 1.0 + 0.2 * x**2])
    guess = value + 0.3 * random.normal(size=value.shape)
    return value, cost, guess


def draw(value, cost, seed: int, p=(0.5, 0.3, 0.2)):
    """One trial: level, y, paid, propensity."""
    random = np.random.default_rng(seed)
    rows = value.shape[1]
    level = random.choice(J, rows, p=p)
    here = level, np.arange(rows)
    return level, value[here] + random.normal(size=rows), cost[here], np.asarray(p)[level]


def truth(value, cost, guess, price):
    chosen = (guess - price * cost).argmax(axis=0), np.arange(value.shape[1])
    return value[chosen].mean(), cost[chosen].mean()


def test_without_a_price_the_rows_that_have_their_best_value_are_averaged() -> None:
    value, cost, guess = population(500, 0)
    level, y, paid, p = draw(value, cost, 1)
    best = guess.argmax(axis=0) == level
    by_hand = np.sum((y / p)[best]) / np.sum((1 / p)[best])
    assert metrics.eom(guess, cost, level, y, paid, p, price=0.0) == pytest.approx(by_hand, rel=1e-12)


def test_of_the_policy_that_gave_the_levels_it_is_the_plain_mean() -> None:
    """Curves that ask for exactly the level given, at a constant propensity."""
    value, cost, _ = population(400, 0)
    level, y, paid, _ = draw(value, cost, 1)
    own = (np.arange(J)[:, None] == level).astype(float)
    found = metrics.eom(own, cost, level, y, paid, np.full(400, 0.25), price=0.0)
    assert found == pytest.approx(y.mean(), rel=1e-12)


def test_hajek_is_consistent() -> None:
    errors = []
    for rows in (500, 50_000):
        value, cost, guess = population(rows, 4)
        want = truth(value, cost, guess, 0.4)[0]
        found = [metrics.eom(guess, cost, *draw(value, cost, k), price=0.4) for k in range(8)]
        errors.append(np.sqrt(np.mean((np.array(found) - want) ** 2)))
    assert errors[1] < 0.2 * errors[0]


def test_the_value_at_a_budget_is_that_of_the_price_that_spends_it() -> None:
    value, cost, guess = population(40_000, 7)
    trial = draw(value, cost, 8)
    prices = np.linspace(0, 3, 400)
    all_known = np.array([truth(value, cost, guess, price) for price in prices])
    for budget in (0.3, 0.5, 0.8):
        want = np.interp(budget, all_known[::-1, 1], all_known[::-1, 0])
        found = metrics.eom(guess, cost, *trial, budget=budget, interval=Interval(replications=200))
        assert found.low < want < found.high
        assert found.high - found.low < 0.15


def test_a_budget_out_of_reach_takes_the_nearest_end() -> None:
    value, cost, guess = population(3000, 9)
    trial = draw(value, cost, 10)
    for budget, price in ((50.0, 0.0), (0.01, 1e9)):
        end = metrics.eom(guess, cost, *trial, price=price)
        assert metrics.eom(guess, cost, *trial, budget=budget) == pytest.approx(end, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"budget": None}, "budget"),
        ({"price": 0.1}, "budget"),
        ({"propensity": np.zeros(20)}, "propensity"),
        ({"level": np.full(20, 3)}, "level"),
        ({"expense": np.zeros((2, 20))}, "cost"),
    ],
)
def test_what_cannot_be_is_refused(change: dict, field: str) -> None:
    value, cost, guess = population(20, 0)
    level, y, paid, p = draw(value, cost, 1)
    given = {"response": guess, "expense": cost, "level": level, "y": y, "paid": paid, "propensity": p, "budget": 0.5}
    with pytest.raises(InvalidInput, match=field):
        metrics.eom(**{**given, **change})
