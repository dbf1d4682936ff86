"""Outcomes: their means, their shared luck, and their cost in whole minor units."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import stats

from shadowprice.campaign import Budget, Campaign, CostBasis, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.budgets.owners import poisson_capped_mean
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import (
    NOTHING,
    NamedCurves,
    OutcomeModel,
    Outcomes,
    poisson_quantile,
)

LEVELS = (50, 120)
N = 6000


def model(merchant_basis: CostBasis = "on_grant", seed: int = 0, most_units: int = 1) -> OutcomeModel:
    merchant = Terms(levels=LEVELS, cost_basis=merchant_basis, most_units=most_units)
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=LEVELS), "merchant": merchant},
        budget=Budget(limit=1),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    levels = np.array(LEVELS)
    truth = {
        "customer": NamedCurves(np.array(["a", "b"]), Curves(levels, np.array([[0.2, 0.5], [0.4, 0.5]]))),
        "merchant": NamedCurves(np.array(["m", "b"]), Curves(levels, np.array([[0.3, 1.7], [0.6, 2.0]]))),
    }
    return OutcomeModel(campaign, truth, seed=seed)  # type: ignore[arg-type]


def day(account: str, side: str, size: int = N) -> Day:
    return Day(
        request_id=np.array([f"{side}-{account}-{i}" for i in range(size)]),
        account_id=np.full(size, account),
        side=np.full(size, side),
        at=np.linspace(0, 0.99, size),
        hours=1,
    )


def level(index: int, size: int = N) -> np.ndarray:
    return np.full(size, index, dtype=np.int32)


def test_a_merchant_has_the_amount_of_a_unit_for_each_unit_of_its_response() -> None:
    plain = model()
    sides = {**plain.campaign.sides, "customer": Terms(levels=LEVELS, weight=5.0)}
    sides["merchant"] = replace(sides["merchant"], worth="amount")
    truth = plain.truth["merchant"]
    law = np.broadcast_to(np.float32([[8.0], [0.5]]), (2, 2))
    known = replace(truth, curves=replace(truth.curves, amounts=law, worth=np.full(2, np.exp(8.125))))
    own = replace(plain, campaign=replace(plain.campaign, sides=sides, objective="value"), truth={"merchant": known})
    drawn = own.draw(day("m", "merchant"), level(1))
    paid = drawn.response > 0
    assert (drawn.amount[~paid] == 0).all()
    unit = drawn.amount[paid] / drawn.response[paid]
    assert np.log(unit).mean() == pytest.approx(8.0, abs=0.03)
    assert np.log(unit).std() == pytest.approx(0.5, abs=0.03)
    assert drawn.amount.mean() == pytest.approx(0.6 * np.exp(8.125), rel=0.05)


@pytest.mark.parametrize(("account", "index", "mean"), [("a", 0, 0.2), ("a", 1, 0.4), ("b", 1, 0.5)])
def test_customers_redeem_with_the_true_probability(account: str, index: int, mean: float) -> None:
    drawn = model().draw(day(account, "customer"), level(index))
    assert set(drawn.response.tolist()) == {0.0, 1.0}
    assert stats.binomtest(int(drawn.response.sum()), N, mean).pvalue > 1e-3
    np.testing.assert_allclose(drawn.expected_response, mean, rtol=1e-6)
    np.testing.assert_allclose(drawn.expected_cost, mean * LEVELS[index], rtol=1e-6)
    np.testing.assert_array_equal(drawn.cost, drawn.response * LEVELS[index])


@pytest.mark.parametrize(("account", "index", "mean"), [("m", 0, 0.3), ("m", 1, 0.6), ("b", 0, 1.7)])
def test_merchants_share_with_the_true_mean_ratio(account: str, index: int, mean: float) -> None:
    drawn = model().draw(day(account, "merchant"), level(index))
    error = np.sqrt(mean / 4 / N)  # a Poisson count of mean 4f, over 4
    assert drawn.response.mean() == pytest.approx(mean, abs=4 * error)
    assert drawn.response.var() == pytest.approx(mean / 4, rel=0.1)
    np.testing.assert_array_equal(drawn.cost, LEVELS[index])  # paid on grant


@pytest.mark.parametrize(("account", "index", "mean"), [("m", 1, 0.6), ("b", 1, 2.0)])
@pytest.mark.parametrize("most_units", [1, 2, 50])
def test_a_merchant_paid_on_response_costs_level_times_the_units_that_are_paid(
    account: str, index: int, mean: float, most_units: int
) -> None:
    drawn = model("on_response", most_units=most_units).draw(day(account, "merchant"), level(index))
    np.testing.assert_array_equal(drawn.cost, np.rint(120 * np.minimum(drawn.response, most_units)))
    assert drawn.cost.dtype == np.int64
    # The true mean of what is paid, and not of what came: a Poisson count of mean 4f, over 4, no more than the most.
    counts = np.arange(200)
    paid = 120 * np.dot(stats.poisson.pmf(counts, 4 * mean), np.minimum(counts / 4, most_units))
    np.testing.assert_allclose(drawn.expected_cost, paid, rtol=1e-6)
    np.testing.assert_allclose(drawn.expected_response, mean, rtol=1e-6)
    assert drawn.cost.mean() == pytest.approx(paid, abs=4 * drawn.cost.std() / np.sqrt(N))


def test_a_higher_response_never_turns_a_success_into_a_failure() -> None:
    for account, side in (("a", "customer"), ("m", "merchant")):
        low = model().draw(day(account, side), level(0)).response
        high = model().draw(day(account, side), level(1)).response
        assert (high >= low).all()
        assert (high > low).any()


def test_luck_depends_on_the_request_and_the_seed_alone() -> None:
    requests = day("a", "customer")
    whole = model().draw(requests, level(0)).response
    parts = [model().draw(batch, level(0, len(batch))).response for batch in requests.batches(7)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    other = model(seed=1).draw(requests, level(0)).response
    assert np.corrcoef(whole, other)[0, 1] == pytest.approx(0, abs=0.06)


def test_an_account_on_both_sides_answers_as_each() -> None:
    assert model().draw(day("b", "customer", 1), level(0, 1)).expected_response[0] == pytest.approx(0.5)
    assert model().draw(day("b", "merchant", 1), level(0, 1)).expected_response[0] == pytest.approx(1.7)


def test_a_request_given_nothing_costs_nothing_and_counts_no_response() -> None:
    drawn = model().draw(day("a", "customer", 5), level(NOTHING, 5))
    for name in ("incentive", "response", "cost", "expected_response", "expected_cost"):
        assert not getattr(drawn, name).any()


def test_outcomes_of_batches_join_in_order() -> None:
    requests = day("m", "merchant", 50)
    parts = [model().draw(batch, level(1, len(batch))) for batch in requests.batches(20)]
    joined = Outcomes.concatenate(parts)
    assert len(joined) == 50
    np.testing.assert_array_equal(joined.request_id, requests.request_id)
    np.testing.assert_array_equal(joined.response, model().draw(requests, level(1, 50)).response)


def test_unknown_accounts_sides_and_levels_are_named() -> None:
    with pytest.raises(NotFound, match="zz"):
        model().draw(day("zz", "customer", 1), level(0, 1))
    with pytest.raises(InvalidInput, match="level"):
        model().draw(day("a", "customer", 1), level(2, 1))
    one_sided = model()
    with pytest.raises(NotFound, match="merchant"):
        OutcomeModel(one_sided.campaign, {"customer": one_sided.truth["customer"]}).draw(
            day("m", "merchant", 1), level(0, 1)
        )
    with pytest.raises(InvalidInput, match="account_id"):
        NamedCurves(np.array(["a", "a"]), one_sided.truth["customer"].curves)


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.7, 3.0, 25.0])
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_the_capped_poisson_mean_is_the_sum_over_its_counts(mean: float, most: int) -> None:
    counts = np.arange(300)
    expected = np.dot(stats.poisson.pmf(counts, mean), np.minimum(counts, most))
    np.testing.assert_allclose(poisson_capped_mean(np.full(2, mean), most), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.7, 3.0, 25.0])
def test_the_poisson_quantile_is_scipys(mean: float) -> None:
    share = np.concatenate([np.linspace(0.0005, 0.9995, 1000), [1 - 1e-9]])
    np.testing.assert_array_equal(poisson_quantile(share, np.full(share.size, mean)), stats.poisson.ppf(share, mean))
