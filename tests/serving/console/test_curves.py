"""Curves by group of accounts and what explored requests show, against sums by hand."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binomtest

from serving.console.curves import GROUPS, side_curves
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.population import SideAccounts

LEVELS = (50, 100, 200)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=(10, 20))},
    budget=Budget(limit=1000),
    starts_at=datetime(2026, 3, 1, tzinfo=UTC),
)


def population(levels: tuple[int, ...], response: np.ndarray, weight: np.ndarray | None = None) -> SideAccounts:
    names = pa.chunked_array([[f"a{row}" for row in range(response.shape[1])]])
    return SideAccounts(names, Curves(np.array(levels), response, weight))


def test_groups_are_quarters_by_what_the_largest_incentive_adds() -> None:
    rate = np.linspace(0.001, 0.008, 400)
    response = -np.expm1(-rate * np.array(LEVELS)[:, None])
    weight = np.where(np.arange(400) < 200, 3.0, 1.0)
    found = side_curves("customer", population(LEVELS, response.astype(np.float32), weight), CAMPAIGN, None)
    added = response[-1] - response[0]
    order = np.argsort(added)
    assert [group.name for group in found.groups] == list(GROUPS)
    for place, group in enumerate(found.groups):
        mine = order[100 * place : 100 * (place + 1)]
        share = weight[mine] / weight[mine].sum()
        np.testing.assert_allclose(group.mean, response[:, mine] @ share, rtol=1e-5)
        np.testing.assert_allclose(group.low, np.quantile(response[:, mine], 0.1, axis=1), rtol=1e-4)
        # The response is exponential in the incentive, so the hazard per minor unit is the rate.
        np.testing.assert_allclose(group.rate, rate[mine] @ share, rtol=1e-3)
        assert group.requests == pytest.approx(weight[mine].sum() / weight.sum())


def test_explored_requests_have_intervals_by_group_and_others_do_not_count() -> None:
    """Half of the accounts respond with 0.1, 0.2, 0.3, and half with twice as much."""
    base = np.float32([[0.1], [0.2], [0.3]])
    people = population(LEVELS, np.concatenate([np.tile(base, 8), np.tile(2 * base, 8)], axis=1))
    rows = pd.DataFrame(
        [
            ("customer", "a0", 0, 40, 10.0),
            ("customer", "a1", 0, 60, 20.0),
            ("customer", "a1", 1, 80, 40.0),
            ("customer", "a9", 1, 50, 25.0),
            ("customer", "stranger", 1, 50, 25.0),
            ("customer", "a0", -1, 7, 0.0),
            ("merchant", "a0", 1, 10, 25.0),
        ],
        columns=["side", "account_id", "level", "requests", "responses"],
    )
    found = side_curves("customer", people, CAMPAIGN, rows.assign(squares=rows["responses"]))
    low, high = found.groups
    assert found.explored == 40 + 60 + 80 + 50
    assert (set(low.seen), set(high.seen), high.seen_rate) == ({0, 1}, {1}, {})
    for level, (hits, count) in {0: (30, 100), 1: (40, 80)}.items():
        estimate, asked = low.seen[level]
        interval = binomtest(hits, count).proportion_ci(method="wilson")
        assert (estimate.value, asked) == (hits / count, count)
        assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    # The hazard between both levels, whose distance is 50, and its interval against draws of both counts.
    draws = np.random.default_rng(0).binomial((100, 80), (0.3, 0.5), (20_000, 2)) / (100, 80)
    hazard = np.diff(-np.log1p(-draws), axis=1)[:, 0] / 50
    rate = low.seen_rate[1]
    assert rate.value == pytest.approx(np.log(0.7 / 0.5) / 50)
    assert (rate.low, rate.high) == pytest.approx(np.quantile(hazard, (0.025, 0.975)), abs=0.1 * np.ptp(hazard) / 2)


def test_a_merchant_whose_response_is_a_ratio_has_the_interval_of_a_mean_and_slopes() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0])
    rows = pd.DataFrame(
        [("merchant", "a0", level, 4, (level + values).sum(), ((level + values) ** 2).sum()) for level in (0, 1)],
        columns=["side", "account_id", "level", "requests", "responses", "squares"],
    )
    merchants = population((10, 20), np.float32([[1.0] * 3, [2.0] * 3]))
    (group,) = side_curves("merchant", merchants, CAMPAIGN, rows).groups
    half = 1.959964 * values.std(ddof=1) / 2
    estimate, _ = group.seen[1]
    assert (estimate.low, estimate.high) == pytest.approx((4.0 - half, 4.0 + half))
    assert np.isnan(group.rate[0])
    assert group.rate[1] == pytest.approx(0.1)
    assert group.seen_rate[1].value == pytest.approx(0.1)
    assert group.seen_rate[1].high - group.seen_rate[1].value == pytest.approx(np.sqrt(2) * half / 10)
