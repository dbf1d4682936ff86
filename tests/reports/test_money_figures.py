"""The budget curve on the page."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

import numpy as np

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.pacing.what_if import WhatIf
from shadowprice.reports import money_figures
from shadowprice.reports.report import render


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


def test_the_page_tells_what_one_more_dollar_brings_and_marks_the_present_budget(example) -> None:
    campaign, asked = question(400_000)
    curve = tuple(asked.budgets())
    now = curve[5]
    page = render(dataclasses.replace(example, campaign=campaign, curve=curve))
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "over 1,000 of 5,000 accounts" in text
    assert f"one more $1 would bring {100 * now.price.value:.3g} redemptions" in text
    expected = f"The model expects {now.added.value:,.0f} extra redemptions there."
    assert expected in text
    assert "$2,000.00 50 %" in text
    assert "$8,000.00 200 %" in text
    assert ">now <" in page


def test_budgets_that_cannot_be_met_are_left_out_of_the_picture_and_dashes_in_the_table(example) -> None:
    campaign, asked = question(170_000)
    curve = tuple(asked.budgets())
    assert curve[0].status == "infeasible"
    assert curve[-1].status == "optimal"
    drawn = money_figures.budget_curve(curve, 170_000, "redemptions", Currency())
    assert "nan" not in drawn.lower()
    text = " ".join(
        re.sub(r"<[^>]+>", " ", render(dataclasses.replace(example, campaign=campaign, curve=curve))).split()
    )
    assert "$850.00 – – 50 % –" in text
