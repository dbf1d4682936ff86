"""The plan keeps what it states: closed forms, sample sizes of statsmodels, and simulated trials."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import NormalIndPower

from shadowprice.campaign import Terms
from shadowprice.errors import InvalidInput
from shadowprice.experiments import plan, planning
from shadowprice.experiments.planning import Precision, Prior

TERMS = Terms(levels=(0, 40, 70, 100))
RESPONSE = np.array([0.10, 0.16, 0.17, 0.22])
PRIOR = Prior(response=RESPONSE, money=9.0)
Z = stats.norm.ppf(0.975)
TRIALS = 2000


def test_the_example_holds() -> None:
    assert doctest.testmod(planning).failed == 0


def test_the_shares_give_the_wanted_half_width_and_one_basis_point_less_does_not() -> None:
    found = plan(TERMS, 150_000, PRIOR, Precision(lift=0.006))
    assert found.shares["explore"] == 0
    assert (
        found.half_widths["lift"]
        <= 0.006
        < found.half_widths["lift"] * np.sqrt(found.shares["holdout"] / (found.shares["holdout"] - 2))
    )
    held, policy = found.accounts["holdout"], found.accounts["policy"]
    mixture = 0.16 + 0.06 * (9.0 - 6.4) / (22 - 6.4)
    error = np.sqrt(0.1 * 0.9 / held + mixture * (1 - mixture) / policy)
    assert found.half_widths["lift"] == pytest.approx(Z * error)
    assert found.price == pytest.approx(0.06 / 15.6)
    assert found.money["policy"] == pytest.approx(policy * 9.0)
    net = mixture - found.price * 9.0
    assert found.holdout_cost == pytest.approx(held * (net - 0.1))


def test_the_exploring_arm_is_sized_by_the_weights_of_its_draws() -> None:
    """With V the variance, z the quantile and n·w_j rows at level j: n is the most that any level asks for."""
    weights, wanted = np.array([1.0, 4.0, 2.0, 1.0]), Precision(curve=0.01, price=0.5)
    found = plan(TERMS, 200_000, PRIOR, wanted, weights=weights)
    share, variance = weights / 8, RESPONSE * (1 - RESPONSE)
    curve = (variance / share).max() * (Z / 0.01) ** 2
    cost = np.array([0, 40, 70, 100]) * RESPONSE
    slope = 1 - found.price * np.array([40, 100])
    price = (slope**2 * (variance / share)[[1, 3]]).sum() / (cost[3] - cost[1]) ** 2 * (Z / 0.5 / found.price) ** 2
    assert found.accounts["explore"] == pytest.approx(max(curve, price), abs=20)
    assert found.half_widths["curve"] <= 0.01
    assert found.money["explore"] == pytest.approx(found.accounts["explore"] * float(share @ cost))
    assert found.accounts["explore"] > plan(TERMS, 200_000, PRIOR, wanted).accounts["explore"]


@pytest.mark.parametrize("requests", [0.4, 3.0])
def test_accounts_that_ask_a_random_number_of_times_give_the_stated_half_width(requests: float) -> None:
    """Simulated sums of accounts, some of which never ask, with correlated responses of one account."""
    prior = Prior(response=RESPONSE, money=16.0, requests_per_account=requests, correlation=0.3)
    found = plan(TERMS, 20_000, prior, Precision(lift=0.02 * requests))
    rng, total, means = np.random.default_rng(9), 1 / 0.3 - 1, []
    share = float(np.interp(16.0, [6.4, 22.0], [0.0, 1.0]))
    for arm, levels in (("holdout", {0.10: 1.0}), ("policy", {0.16: 1 - share, 0.22: share})):
        number = found.accounts[arm]
        assert number > 100
        level = rng.choice(list(levels), number, p=list(levels.values()))
        chance = rng.beta(level * total, (1 - level) * total, size=(TRIALS // 4, number))
        means.append(rng.binomial(rng.poisson(requests, chance.shape), chance).mean(axis=1))
    assert Z * (means[1] - means[0]).std() == pytest.approx(found.half_widths["lift"], rel=0.1)


def test_the_power_curve_is_that_of_a_test_of_two_means() -> None:
    found = plan(TERMS, 150_000, replace(PRIOR, variance=[0.1] * 4), Precision(lift=0.006))
    mixture = np.array([0.0, 1 - 2.6 / 15.6, 0.0, 2.6 / 15.6])
    variance = 0.1 + mixture @ RESPONSE**2 - (mixture @ RESPONSE) ** 2
    held, policy = found.accounts["holdout"], found.accounts["policy"]
    pooled = np.sqrt((0.1 / held + variance / policy) / (1 / held + 1 / policy))
    for effect, power in zip(found.effects, found.power, strict=True):
        reference = NormalIndPower().power(effect / pooled, held, 0.05, ratio=policy / held)
        assert power == pytest.approx(reference, abs=1e-6)
    assert np.interp(found.detectable, found.effects, found.power) == pytest.approx(0.8, abs=1e-3)


def test_the_exploring_arm_estimates_curve_and_price_as_precisely_as_stated() -> None:
    """Simulated trials on the believed responses, with accounts that return and correlated responses of one account."""
    prior = Prior(response=RESPONSE, money=9.0, requests_per_account=8.0, correlation=0.3)
    found = plan(TERMS, 60_000, prior, Precision(curve=0.03, price=0.3))
    assert max(found.half_widths["curve"] / 0.03, found.half_widths["price"] / 0.3) == pytest.approx(1, abs=0.02)
    accounts = found.accounts["explore"]
    rng = np.random.default_rng(8)
    # Two requests of an account at each level; a beta-binomial pair has the correlation 1 / (a + b + 1).
    total = 1 / 0.3 - 1
    sums = np.empty((TRIALS, 4))
    for level, mean in enumerate(RESPONSE):
        chance = rng.beta(mean * total, (1 - mean) * total, size=(TRIALS, accounts)).astype(np.float32)
        sums[:, level] = rng.binomial(2, chance).mean(axis=1) / 2
    assert Z * sums[:, 3].std() == pytest.approx(found.half_widths["curve"], rel=0.06)
    price = (sums[:, 3] - sums[:, 1]) / (100 * sums[:, 3] - 40 * sums[:, 1])
    assert Z * price.std() / found.price == pytest.approx(found.half_widths["price"], rel=0.06)
    drawn = RESPONSE.mean() - found.price * (RESPONSE * TERMS.levels).mean()
    policy = (0.16 + 0.06 * 2.6 / 15.6) - found.price * 9.0
    assert found.exploration_cost == pytest.approx(accounts * 8 * (policy - drawn))


def test_a_level_that_no_flat_mixture_uses_is_left_out_where_accounts_are_few() -> None:
    wanted = Precision(curve=0.02)
    many = plan(TERMS, 100_000, PRIOR, wanted)
    assert many.levels == TERMS.levels
    few = plan(TERMS, many.accounts["explore"] - 500, PRIOR, wanted)
    assert few.levels == (0, 40, 100)
    with pytest.raises(InvalidInput, match="curve and price need"):
        plan(TERMS, 1000, PRIOR, wanted)


def test_a_precision_that_the_accounts_cannot_give_is_refused_with_the_one_they_can() -> None:
    with pytest.raises(InvalidInput, match="at best") as refused:
        plan(TERMS, 10_000, PRIOR, Precision(lift=0.001))
    best = float(refused.value.reason.split("give ")[1].split(" ")[0])
    assert plan(TERMS, 10_000, PRIOR, Precision(lift=best * 1.02)).half_widths["lift"] <= best * 1.02
    for wrong in ({"correlation": 1.0}, {"response": [0.1, 0.2]}, {"response": [0.1] * 4}, {"money": -1.0}):
        with pytest.raises(InvalidInput):
            plan(TERMS, 10_000, replace(PRIOR, **wrong), Precision(lift=0.1))
    with pytest.raises(InvalidInput, match="at least one of"):
        Precision()


@pytest.mark.parametrize("lowest", [0.0, 1e-6])
@pytest.mark.parametrize("accounts", [9_000, 200_000])
def test_a_trial_can_measure_a_lift_over_a_level_that_is_believed_never_to_respond(
    lowest: float, accounts: int
) -> None:
    terms = Terms(levels=(0, 50, 100))
    found = plan(terms, accounts, Prior(response=[lowest, 0.14, 0.16], money=6.0), Precision(lift=0.015))
    held, policy = found.accounts["holdout"], found.accounts["policy"]
    assert found.shares["holdout"] > 0
    # At a rate of so many the holdout expects a response, and the normal interval holds.
    rate = 0.015 / Z
    assert held * rate >= 1
    assert Z * np.sqrt(rate / held + 0.12 * 0.88 / policy) <= 0.0151
    assert found.half_widths["lift"] <= 0.0151
    assert found.detectable > 0


def test_a_small_variance_leaves_the_holdout_an_account() -> None:
    prior = Prior(response=[0.0, 0.14, 0.16], variance=[1e-12, 0.12, 0.13], money=6.0)
    found = plan(Terms(levels=(0, 50, 100)), 4_000, prior, Precision(lift=0.02))
    assert found.accounts["holdout"] == 1
    assert found.half_widths["lift"] <= 0.02


def test_the_plan_becomes_the_arms_of_a_campaign() -> None:
    found = plan(TERMS, 150_000, PRIOR, Precision(lift=0.006, curve=0.02))
    experiment = found.experiment("spring")
    assert {arm.name: arm.share for arm in experiment.arms} == found.shares
    assert sum(found.shares.values()) == 10_000
