"""The served log estimates other policies: coverage against known truth, and refusals without overlap."""

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.experiments.logged_policy import LoggedRows, Target

TRUTH = np.array([[0.10, 0.16, 0.20], [0.15, 0.35, 0.45]]).T
"""Response of two kinds of accounts at three levels."""
PAID = np.array([0.0, 20.0, 50.0])
MODEL = TRUTH + np.array([[0.05], [-0.03], [0.04]])
"""A model that is wrong everywhere."""
JUDGED = np.array([[0.8, 0.0], [0.2, 0.3], [0.0, 0.7]])
"""Probability of each level for both kinds under the policy that is judged."""


def draw(seed: int, accounts: int = 400, requests: int = 1000) -> tuple[LoggedRows, np.ndarray]:
    """A log in which requests of an account share a taste; return it with the kind of each request."""
    random = np.random.default_rng(seed)
    account = random.integers(0, accounts, requests)
    kind, taste = random.integers(0, 2, accounts)[account], random.choice([-0.08, 0.08], accounts)[account]
    best = np.where(kind == 1, 2, 1)
    explore = np.where(random.random(requests) < 0.3, 1.0, 0.2)
    propensity = explore / 3 + (1 - explore) * (np.arange(3)[:, None] == best)
    level = (random.random(requests) > propensity.cumsum(axis=0)).sum(axis=0)
    response = (random.random(requests) < TRUTH[level, kind] + taste).astype(float)
    rows = LoggedRows(
        side=np.full(requests, "customer"),
        account=account.astype(str),
        level=level,
        propensity={"customer": propensity},
        value=response,
        cost=response * PAID[level],
    )
    return rows, kind


@pytest.mark.parametrize("estimator", ["ips", "hajek", "dr"])
def test_intervals_cover_the_truth_of_a_policy_that_was_not_served(estimator: str) -> None:
    # Kinds and tastes are drawn anew in each log, so the mean over kinds is the truth.
    value = (JUDGED * TRUTH).sum(axis=0).mean()
    cost = (JUDGED * TRUTH * PAID[:, None]).sum(axis=0).mean()
    covered = np.zeros(2)
    logs = 250
    for seed in range(logs):
        rows, kind = draw(seed)
        expense = PAID[:, None] * MODEL[:, kind]
        target = Target(JUDGED[:, kind], MODEL[:, kind], expense)
        found = rows.estimate(lambda _, target=target: target, estimator, replications=200)
        covered += [found.value.low <= value <= found.value.high, found.cost.low <= cost <= found.cost.high]
    # Three standard errors of a share of 0.95 among the logs are 0.041.
    assert (np.abs(covered / logs - 0.95) < 0.041).all(), covered / logs


def test_a_level_that_the_log_could_not_give_is_refused_with_its_share() -> None:
    rows, kind = draw(1)
    rows.propensity["customer"][2, kind == 0] = 0.0
    always = Target(np.repeat([[0.0], [0.0], [1.0]], kind.size, axis=1))
    share = (kind == 0).mean()
    with pytest.raises(InvalidInput, match=f"could not give level 2, .* {share:.1%} of the requests of side customer"):
        rows.estimate(lambda _: always, "hajek")


@pytest.mark.parametrize("estimator", ["hajek", "dr"])
def test_requests_that_could_not_get_a_level_are_left_out_and_the_rest_covers_its_truth(estimator: str) -> None:
    # Near the end of a budget the dearest level did not fit: the log had no chance of it for some of one kind.
    logs, left = 250, np.array([500, 496])
    truth = (left * (JUDGED * TRUTH).sum(axis=0)).sum() / left.sum()
    covered = 0
    for seed in range(logs):
        rows, kind = draw(seed)
        random = np.random.default_rng(10_000 + seed)
        stopped = random.choice(np.flatnonzero(kind == 1), 4, replace=False)
        shares = rows.propensity["customer"]
        shares[:, stopped] = np.array([[0.5], [0.5], [0.0]])
        rows.level[stopped] = random.integers(0, 2, stopped.size)
        rows.value[stopped] = random.random(stopped.size) < TRUTH[rows.level[stopped], 1]
        rows.cost[stopped] = rows.value[stopped] * PAID[rows.level[stopped]]
        expense = PAID[:, None] * MODEL[:, kind]
        target = Target(JUDGED[:, kind], MODEL[:, kind], expense)
        found = rows.estimate(lambda _, target=target: target, estimator, replications=200)
        expected = (JUDGED * MODEL).sum(axis=0)[kind]
        assert (found.outside, found.requests) == (stopped.size, kind.size - stopped.size)
        assert found.outside_value == pytest.approx(expected[stopped].sum() / expected.sum())
        covered += found.value.low <= truth <= found.value.high
    # Three standard errors of a share of 0.95 among the logs are 0.041.
    assert abs(covered / logs - 0.95) < 0.041, covered / logs


def test_few_requests_with_most_of_the_value_are_refused() -> None:
    rows, kind = draw(3)
    rows.propensity["customer"][2, :5] = 0.0
    rows.level[:5] = 0
    always = np.repeat([[0.0], [0.0], [1.0]], kind.size, axis=1)
    value = np.where(np.arange(kind.size) < 5, 50.0, 0.3) * always
    with pytest.raises(InvalidInput, match=r"\d\d.\d% of its value or spend"):
        rows.estimate(lambda _: Target(always, value, value), "dr")
    found = rows.estimate(lambda _: Target(always), "hajek")
    assert (found.outside, found.outside_value) == (5, None)


def test_a_log_that_is_worth_few_requests_of_the_policy_is_refused() -> None:
    rows, kind = draw(2, requests=300)
    never = Target(np.repeat([[1.0], [0.0], [0.0]], kind.size, axis=1))
    with pytest.raises(InvalidInput, match=r"worth \d\d requests of this policy, fewer than 100"):
        rows.estimate(lambda _: never, "hajek")


def test_doubly_robust_needs_a_model() -> None:
    rows, kind = draw(3)
    with pytest.raises(InvalidInput, match="dr needs a model"):
        rows.estimate(lambda _: Target(JUDGED[:, kind]), "dr")
