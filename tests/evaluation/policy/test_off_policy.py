"""Off-policy estimates against known truth: unbiasedness, coverage, and the definitions by loops."""

from dataclasses import replace

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics
from shadowprice.evaluation.policy.frontier import RandomizedRows, decided, price_grid
from shadowprice.evaluation.policy.joint import AtBudget, Spending, at_budget
from shadowprice.evaluation.policy.off_policy import cross_fitted
from shadowprice.evaluation.statistics.clusters import Clusters

J = 4
LEVELS = np.array([0.0, 1.0, 2.0, 4.0])


class World:
    """Accounts with two requests each that share a taste; levels drawn with probabilities that depend on it."""

    def __init__(self, accounts: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.account = np.repeat(np.arange(accounts), 2)
        taste = np.repeat(rng.normal(size=accounts), 2)
        self.x = taste + rng.normal(0, 0.3, taste.size)
        self.truth = 1 / (1 + np.exp(-(taste - 1 + 0.5 * LEVELS[:, None])))
        logits = 0.4 * np.outer(np.arange(J) - 1.5, np.tanh(self.x))
        self.logging = np.exp(logits) / np.exp(logits).sum(axis=0)
        rows = np.arange(self.x.size)
        self.level = (rng.uniform(size=rows.size) > np.cumsum(self.logging, axis=0)).sum(axis=0)
        self.propensity = self.logging[self.level, rows]
        self.y = (rng.uniform(size=rows.size) < self.truth[self.level, rows]).astype(float)
        self.policy = np.full((J, rows.size), 0.1)
        self.policy[np.where(self.x > 0, 3, 1), rows] = 0.7
        self.target = self.policy[self.level, rows]
        self.value = float((self.policy * self.truth).sum(axis=0).mean())

    def model(self, wrong: float = 0.0) -> dict[str, np.ndarray]:
        q = np.clip(1 / (1 + np.exp(-(self.x - 1 + 0.5 * LEVELS[:, None]))) + wrong, 0, 1)
        rows = np.arange(self.x.size)
        return {"predicted": q[self.level, rows], "expected": (self.policy * q).sum(axis=0)}


def test_each_estimator_is_its_definition() -> None:
    world = World(30, 0)
    q = world.model()
    w = [world.target[i] / world.propensity[i] for i in range(60)]
    both = (world.y, world.target, world.propensity)
    assert metrics.ips_value(*both) == pytest.approx(sum(w[i] * world.y[i] for i in range(60)) / sum(w))
    assert metrics.ips_value(*both, normalize=False) == pytest.approx(sum(w[i] * world.y[i] for i in range(60)) / 60)
    capped = [min(each, 1.5) for each in w]
    assert metrics.ips_value(*both, clip=1.5) == pytest.approx(
        sum(capped[i] * world.y[i] for i in range(60)) / sum(capped)
    )

    def dr(weights):
        return sum(q["expected"][i] + weights[i] * (world.y[i] - q["predicted"][i]) for i in range(60)) / 60

    assert metrics.dr_value(*both, **q) == pytest.approx(dr(w))
    assert metrics.dr_value(*both, **q, switch=1.0) == pytest.approx(dr([each if each <= 1 else 0 for each in w]))
    assert metrics.dr_value(*both, **q, shrink=2.0) == pytest.approx(dr([2 * e / (e**2 + 2) for e in w]))
    assert metrics.dr_value(*both, **q, switch=0.0) == pytest.approx(q["expected"].mean())
    assert metrics.dr_value(*both, **q, shrink=1e12) == pytest.approx(metrics.dr_value(*both, **q))
    assert metrics.effective_rows(world.target, world.propensity) == pytest.approx(sum(w) ** 2 / sum(e**2 for e in w))


def test_the_logging_policy_itself_has_the_plain_mean() -> None:
    world = World(50, 1)
    same = (world.y, world.propensity, world.propensity)
    assert metrics.ips_value(*same) == pytest.approx(world.y.mean())
    assert metrics.effective_rows(world.propensity, world.propensity) == pytest.approx(100)


@pytest.fixture(scope="module")
def replications() -> list[World]:
    return [World(300, seed) for seed in range(500)]


def z(errors: list[float]) -> float:
    return abs(np.mean(errors)) / (np.std(errors) / np.sqrt(len(errors)))


def test_they_are_unbiased_over_trials(replications) -> None:
    plain, wrong_model, wrong_propensity, biased = [], [], [], []
    for world in replications:
        both = (world.y, world.target, world.propensity)
        plain.append(metrics.ips_value(*both, normalize=False) - world.value)
        wrong_model.append(metrics.dr_value(*both, **world.model(wrong=0.3)) - world.value)
        even = np.full(world.y.size, 1 / J)
        right = (world.policy * world.truth).sum(axis=0)
        at = world.truth[world.level, np.arange(world.y.size)]
        wrong_propensity.append(metrics.dr_value(world.y, world.target, even, at, right) - world.value)
        biased.append(metrics.ips_value(world.y, world.target, even) - world.value)
    assert z(plain) < 3
    assert z(wrong_model) < 3
    assert z(wrong_propensity) < 3
    assert z(biased) > 5, "the trial is one in which wrong propensities matter"
    assert np.std(wrong_model) < np.std(plain)


TRUTH = float(np.mean([World(20_000, 10_000 + seed).value for seed in range(5)]))
"""Of the population that accounts are drawn from."""


@pytest.mark.parametrize("estimator", ["hajek", "dr"])
def test_95_percent_intervals_cover_the_truth_in_93_to_97_percent_of_500_trials(replications, estimator) -> None:
    covered = 0
    for number, world in enumerate(replications):
        interval = Interval(replications=300, cluster=world.account, seed=number)
        both = (world.y, world.target, world.propensity)
        found = (
            metrics.ips_value(*both, interval=interval)
            if estimator == "hajek"
            else metrics.dr_value(*both, **world.model(wrong=0.1), interval=interval)
        )
        covered += found.low <= TRUTH <= found.high
    assert 0.93 * 500 <= covered <= 0.97 * 500, covered


def test_cross_fitting_never_shows_a_model_the_account_it_predicts() -> None:
    world = World(100, 2)

    def memorise(train, test):
        known = set(world.account[train])
        return np.array([[float(account in known) for account in world.account[test]]])

    assert not cross_fitted(memorise, world.account).any()
    order = cross_fitted(lambda train, test: world.x[test][None], world.account)
    np.testing.assert_array_equal(order[0], world.x)


def trial(world: World, **options) -> RandomizedRows:
    rows = np.arange(world.x.size)
    return RandomizedRows(
        level=world.level,
        value=world.y,
        cost=LEVELS[world.level] * world.y,
        propensity=world.logging[world.level, rows],
        account=world.account,
        **options,
    )


def costed(response: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return response, LEVELS[:, None] * response


@pytest.mark.parametrize("estimator", ["hajek", "dr"])
def test_the_path_is_the_true_value_and_spend_of_the_decisions(estimator) -> None:
    world = World(20_000, 3)
    value, cost = costed(world.truth)
    outcome = {} if estimator == "hajek" else {"expected_value": 0.8 * value, "expected_cost": 0.8 * cost}
    prices = [0.0, 0.05, 0.1, 0.2, 0.5]
    rows = world.x.size
    found, asked = decided(
        trial(world, **outcome), value, cost, prices, estimator, Clusters(np.zeros(rows, dtype=int), 1)
    )
    assert asked.tolist() == prices[::-1]
    (values,), (costs,) = found.at(np.ones((1, 1)))
    for at, price in enumerate(asked):
        chosen = (value - price * cost).argmax(axis=0)
        rows = np.arange(chosen.size)
        truth = value[chosen, rows].mean(), cost[chosen, rows].mean()
        assert values[at] == pytest.approx(truth[0], abs=0.02)
        assert costs[at] == pytest.approx(truth[1], abs=0.08)
    assert (np.diff(costs) > 0).all(), "money that is cheaper is spent more"
    assert found.effective_rows.min() > 1000


def equal(rows: RandomizedRows, one: tuple, other: tuple, spend: float | None = None, **options) -> AtBudget:
    """The comparison at what the trial itself spent."""
    budget = float(np.mean(rows.cost)) if spend is None else spend
    sides = ({"customer": each} for each in (rows, one, other))
    spending = Spending(requests={"customer": 1.0}, budget=budget)
    return at_budget(*sides, spending=spending, **{"estimator": "hajek", **options})


def test_a_policy_that_knows_the_accounts_beats_one_that_does_not_equal() -> None:
    world = World(4000, 4)
    informed = costed(world.truth)
    shuffled = costed(world.truth[:, np.random.default_rng(0).permutation(world.x.size)])
    found = equal(trial(world), informed, shuffled, interval=Interval(replications=200))
    assert found.difference.low > 0
    assert found.effective_rows["customer"] > 500
    back = equal(trial(world), shuffled, informed, interval=Interval(replications=200))
    assert back.difference.value == pytest.approx(-found.difference.value)
    same = equal(trial(world), informed, informed, interval=Interval(replications=50))
    assert (same.difference.low, same.difference.value, same.difference.high) == (0, 0, 0)


def test_a_comparison_of_policies_is_less_certain_where_partners_share_shocks() -> None:
    world = World(1500, 7)
    rng = np.random.default_rng(8)
    partner = rng.integers(0, 40, world.x.size)
    rows = trial(world)
    shared = replace(rows, value=world.y + rng.normal(0, 0.8, (40, J))[partner, world.level])
    policies = costed(world.truth), costed(world.truth[::-1])
    how = Interval(replications=300)
    one = equal(shared, *policies, spend=1.0, interval=how).difference
    two = equal(replace(shared, partner=partner), *policies, spend=1.0, interval=how).difference
    assert one.value == pytest.approx(two.value)
    assert two.high - two.low > 1.3 * (one.high - one.low)


def test_prices_spread_the_decisions() -> None:
    value, cost = costed(World(500, 6).truth)
    prices = price_grid(value, cost)
    assert prices[-1] == 0
    assert ((value - prices[0] * cost).argmax(axis=0) == 0).all()
    shares = [np.mean((value - price * cost).argmax(axis=0) == 0) for price in prices]
    assert np.max(np.diff(shares)) < 0.25


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: metrics.ips_value([1.0], [0.5], [0.0]), "propensity"),
        (lambda: metrics.ips_value([1.0], [1.5], [0.5]), "target"),
        (lambda: metrics.dr_value([1.0], [0.5], [0.5], [0.5], [0.5], switch=-1), "switch"),
        (
            lambda: equal(trial(World(5, 0)), *2 * [costed(World(5, 0).truth)], estimator="dr"),
            "trial.expected_value",
        ),
        (lambda: equal(trial(World(5, 0)), *2 * [costed(World(6, 0).truth)]), "value"),
    ],
)
def test_bad_arguments_are_named(call, field) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        call()
