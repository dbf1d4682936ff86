"""Curves by group of accounts and what explored requests show, against sums by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from serving.console.curves import GROUPS, side_curves
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves

LEVELS = (50, 100, 200)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=(10, 20))},
    budget=Budget(limit=1000),
    starts_at=datetime(2026, 3, 1, tzinfo=UTC),
)


def test_groups_are_quarters_by_what_the_largest_incentive_adds() -> None:
    rate = np.linspace(0.001, 0.008, 400)
    response = -np.expm1(-rate * np.array(LEVELS)[:, None])
    weight = np.where(np.arange(400) < 200, 3.0, 1.0)
    found = side_curves("customer", Curves(np.array(LEVELS), response.astype(np.float32), weight), CAMPAIGN, None)
    added = response[-1] - response[0]
    order = np.argsort(added)
    assert [group.name for group in found.groups] == list(GROUPS)
    for place, group in enumerate(found.groups):
        mine = order[100 * place : 100 * (place + 1)]
        share = weight[mine] / weight[mine].sum()
        np.testing.assert_allclose(group.mean, response[:, mine] @ share, rtol=1e-5)
        np.testing.assert_allclose(group.low, np.quantile(response[:, mine], 0.1, axis=1), rtol=1e-4)
        # The response is exponential in the incentive, so the hazard per minor unit is the rate.
        np.testing.assert_allclose(group.hazard, rate[mine] @ share, rtol=1e-3)
        assert group.requests == pytest.approx(weight[mine].sum() / weight.sum())


def test_explored_requests_have_the_interval_of_a_share_and_others_do_not_count() -> None:
    curves = Curves(np.array(LEVELS), np.tile(np.float32([[0.1], [0.2], [0.3]]), 8))
    cells = pd.DataFrame(
        [
            ("customer", "explored", 0, 40, 10.0),
            ("customer", "explored", 0, 60, 20.0),
            ("customer", "explored", 2, 50, 25.0),
            ("customer", "optimal", 2, 900, 900.0),
            ("customer", "explored", -1, 7, 0.0),
            ("merchant", "explored", 1, 10, 25.0),
        ],
        columns=["side", "reason", "level", "requests", "responses"],
    )
    seen = side_curves("customer", curves, CAMPAIGN, cells).seen
    assert set(seen) == {0, 2}
    for level, (hits, count) in {0: (30, 100), 2: (25, 50)}.items():
        estimate, rows = seen[level]
        interval = binomtest(hits, count).proportion_ci(method="wilson")
        assert (estimate.value, rows) == (hits / count, count)
        assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    merchants = Curves(np.array((10, 20)), np.ones((2, 3), dtype=np.float32))
    ratio, rows = side_curves("merchant", merchants, CAMPAIGN, cells).seen[1]
    assert (ratio.value, rows) == (2.5, 10)
    assert np.isnan(ratio.low)
