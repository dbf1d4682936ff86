"""The budget curve, which the console shows."""

import re
from datetime import UTC, datetime

import numpy as np

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.pacing.what_if import WhatIf
from shadowprice.reports import money_figures


def question(limit: int) -> tuple[Campaign, WhatIf]:
    rng = np.random.default_rng(0)
    levels = np.array([50, 100, 200])
    response = -np.expm1(-np.exp(rng.normal(-1, 0.6, 5000)) * levels[:, None] / 100)
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=tuple(levels.tolist()))},
        budget=Budget(limit=limit),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return campaign, WhatIf(campaign, {"customer": Curves(levels, response)}, {"customer": 10_000.0}, rows=1000)


def test_the_picture_marks_the_present_budget_and_tells_the_value_at_each_point() -> None:
    _, asked = question(400_000)
    curve = tuple(asked.budgets())
    drawn = money_figures.budget_curve(curve, 400_000, "redemptions", Currency())
    assert ">now <" in drawn
    assert f"<title>$8,000.00: {curve[-1].added.value:,.0f}</title>" in drawn


def test_budgets_that_cannot_be_met_are_left_out_of_the_picture() -> None:
    _, asked = question(170_000)
    curve = tuple(asked.budgets())
    assert curve[0].status == "infeasible"
    assert curve[-1].status == "optimal"
    drawn = money_figures.budget_curve(curve, 170_000, "redemptions", Currency())
    assert "nan" not in drawn.lower()
    assert len(re.findall(r"<title>\$", drawn)) == 2 * sum(np.isfinite(each.added.value) for each in curve)
