"""The page of an hourly solve: the price, why it changed, and the window so far."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.limits import GroupBudget, Limits
from shadowprice.price import PriceRecord
from shadowprice.reports.budgets import further_budgets
from shadowprice.reports.prices import day_page
from shadowprice.reports.wording import percent

START = datetime(2027, 6, 1, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 50))},
    budget=Budget(form="total", limit=1_000),
    starts_at=START,
)
FIRST = PriceRecord(
    campaign="spring",
    version=1,
    slot=0,
    prices={"budget": 0.1},
    tie_share=0.0,
    status="optimal",
    primal=1.0,
    dual=1.0,
    gap=0.0,
    violation=0.0,
    spent=0,
    remaining=1_000,
    sample_rows=10,
    model_version="m1",
    solved_at=START,
    expires_at=START + timedelta(hours=2),
    window=START,
    plan=(0.0, 1_000.0),
    arrivals=(0.0, 10.0),
)


def test_a_price_in_money_is_a_return_and_its_floor_is_no_fault() -> None:
    sides = {"customer": Terms(levels=(0, 50), weight=400.0)}
    campaign = replace(CAMPAIGN, sides=sides, objective="margin", least_return=1.2)
    page = day_page(campaign, [replace(FIRST, prices={"budget": 1.3512})])
    assert "The last $1 returns $1.35 of margin. It is certified." in page
    assert "| 1 | 1.351 |" in page
    assert "at the least" not in page
    held = day_page(campaign, [replace(FIRST, prices={"budget": 1.2}, violation=-0.4)])
    assert "The last $1 returns $1.20 of margin." in held
    assert "returns 1.2, the least that is asked: the rest stays unspent on purpose" in held
    assert "does not bind" not in held


def test_the_page_says_what_changed_and_lists_the_prices_of_its_window_alone() -> None:
    earlier = replace(FIRST, window=START - timedelta(days=1), solved_at=START - timedelta(days=1))
    first = replace(FIRST, version=2)
    second = replace(
        FIRST, version=3, slot=1, prices={"budget": 0.12}, pacing_error=0.25, spent=400, remaining=600, gap=1e-3
    )
    page = day_page(CAMPAIGN, [earlier, first, second])
    assert page.startswith("# Campaign spring: price version 3\n")
    assert "The price is 12 responses per $1, 20.0 % above the price before." in page
    assert "not certified: gap 0.001 above the limit" in page
    assert "Reasons: 25.0 % more was paid than planned." in page
    assert "$4.00 of $10.00 are paid; $0.00 paid or held, and $10.00 planned by the end." in page
    rows = [line for line in page.partition("## The window so far")[2].splitlines() if line.startswith("| 2027")]
    assert [row.split(" | ")[1] for row in rows] == ["2", "3"]
    assert "a new window" in rows[0]
    alone = day_page(CAMPAIGN, [FIRST])
    assert "Reasons: first price that is kept." in alone
    assert "above the price before" not in alone


def test_the_page_lists_further_budgets_with_plan_price_and_status() -> None:
    budgets = (
        GroupBudget(name="north", limit=800, side="customer"),
        GroupBudget(name="rush", limit=90, period="hour"),
        GroupBudget(name="late", limit=70, sense="at_least"),
    )
    record = replace(
        FIRST,
        prices={"budget": 0.1, "north": 0.02, "rush": 0.0},
        plans={"north": (100.0, 800.0), "rush": (0.0, 45.4)},
        pacing_errors={"north": -0.03, "rush": 0.0},
    )
    campaign = replace(CAMPAIGN, limits=Limits(budgets=budgets))
    table = day_page(campaign, [record]).partition("## Further budgets")[2].partition("##")[0]
    for row in (
        f"north | $8.00 in the campaign | customers | $1.00 | $8.00 | 2 | {percent(-0.03)} | binds",
        "rush | $0.90 in each hour | all requests | $0.00 | $0.45 | 0 | 0.0 % | does not bind",
        "late | at least $0.70 in the campaign | all requests | – | – | – | – | added after the solve",
    ):
        assert f"| {row} |" in table
    assert "Further budgets" not in day_page(CAMPAIGN, [FIRST])
    north, rush, late = further_budgets(campaign, record, {"north": 780, "late": 12})
    assert (north.used, north.share, rush.used, late.used) == (780, 780 / 800, 0, 12)
    assert np.isnan(late.share)


def test_the_group_of_a_budget_is_told_in_words_and_does_not_break_its_table() -> None:
    where = 'side == "customer" || account.x_age < 30'
    budgets = (
        GroupBudget(name="few", limit=800, partners=("p1", "p2"), where=where),
        GroupBudget(name="many", limit=800, partners=tuple("abcd"), side="customer"),
        GroupBudget(name="both", limit=800, campaigns=("spring", "autumn")),
        GroupBudget(name="tried", limit=800, arm="canary"),
    )
    page = day_page(replace(CAMPAIGN, limits=Limits(budgets=budgets)), [FIRST])
    assert 'with p1 and p2, where side == "customer" \\|\\| account.x_age < 30 |' in page
    assert "| customers, with 4 partners |" in page
    assert "| of spring and autumn |" in page
    assert page.count("has no price") == 1
