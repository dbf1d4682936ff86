"""Offers without an amount on the page: their names in place of amounts, and offers in place of money."""

import dataclasses
import re
from datetime import UTC, datetime

import numpy as np
import pytest

from serving.console.why import Choice, why
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.currency import OFFERS, Currency
from shadowprice.evaluation.prediction.per_level import response_by_level
from shadowprice.reports.data import ReportData, SideReport
from shadowprice.reports.headline import campaign_facts, headline, lowest
from shadowprice.reports.mix import Mix
from shadowprice.reports.report import render
from shadowprice.reports.texts import evaluation_markdown
from shadowprice.reports.wording import money

NAMES = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
TERMS = Terms(levels=(0, 1, 2), offers=NAMES, ordered=False, amounts=(0, 0, 0), costs=(0, 1, 1), cost_basis="on_grant")
CAMPAIGN = Campaign(
    name="mail", sides={"customer": TERMS}, budget=Budget(limit=384), starts_at=datetime(2026, 3, 1, tzinfo=UTC)
)


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.fixture
def page(example: ReportData) -> ReportData:
    """The example as a campaign of e-mails on one side."""
    rng = np.random.default_rng(0)
    level, y = rng.integers(0, 3, 300), (rng.random(300) < 0.3).astype(float)
    side = SideReport(
        side="customer",
        levels=response_by_level(y, np.full(300, 0.3), level, [0, 1, 2], truth=np.full(300, 0.3)),
        offers=NAMES,
    )
    cells = np.arange(3)
    mix = Mix(
        side=np.array(["customer"] * 3),
        segment=np.array(["all"] * 3),
        hour=np.zeros(3, dtype=np.int64),
        level=cells,
        incentive=np.array([0, 1, 1]),
        requests=np.array([5, 4, 3]),
        responses=np.array([1.0, 2.0, 1.0]),
        cost=np.array([0, 4, 3]),
    )
    run = dataclasses.replace(example.scenarios[0], weights={"customer": 1.0})
    return dataclasses.replace(
        example,
        campaign=CAMPAIGN,
        currency=Currency.of(OFFERS),
        sides=(side,),
        mix=mix,
        scenarios=(run,),
        budgets=(),
        solves=(),
    )


@pytest.mark.parametrize(
    ("minor", "text"),
    [(1, "1 offer"), (0, "0 offers"), (1234, "1,234 offers"), (12.94, "12.9 offers"), (-3, "−3 offers"), (np.nan, "–")],
)
def test_a_number_of_offers_is_no_money(minor: float, text: str) -> None:
    assert money(minor, Currency.of(OFFERS)) == text


def test_levels_have_the_names_of_their_offers_where_amounts_do_not_tell() -> None:
    dollars = Currency()
    assert TERMS.names(dollars) == NAMES
    assert Terms(levels=(0, 500), costs=(0, 300)).names(dollars) == ("$0.00", "$5.00")
    fund = Terms(levels=(0,), segments=(Segment(name="bonds", demand=3),))
    assert fund.names(dollars) == ("bonds",)


def test_the_page_names_offers_and_has_no_sign_of_money(page: ReportData) -> None:
    text = words(render(page))
    assert "$" not in text
    assert all(text.count(name) > 2 for name in NAMES)
    assert "No E-Mail (costs 0 offers), Mens E-Mail (costs 1 offer) and Womens E-Mail (costs 1 offer)" in text
    assert "Each shade is an offer." in text
    assert "One more offer brings" in text
    assert "lowest incentive" not in text
    assert "Reversed pairs" not in text


def test_the_headline_counts_offers_from_the_control(page: ReportData) -> None:
    told = headline(page)
    assert told is not None
    assert "offers, personal incentives bring" in told.sentence
    assert "than No E-Mail for every request" in told.sentence
    assert "over No E-Mail" in told.tiles[0].aside
    # Offers that ascend, as the ratios of a matching gift, and offers on one of two sides.
    ratios = dataclasses.replace(TERMS, ordered=True, offers=("no match", "1:1", "2:1"))
    assert lowest(dataclasses.replace(CAMPAIGN, sides={"customer": ratios})) == "no match"
    both = {"customer": TERMS, "merchant": Terms(levels=(20, 60))}
    assert lowest(dataclasses.replace(CAMPAIGN, sides=both)) == "No E-Mail and $0.20"


def test_amounts_that_cost_something_else_show_both() -> None:
    plan = dataclasses.replace(CAMPAIGN, sides={"customer": Terms(levels=(0, 500), costs=(0, 300))})
    facts = campaign_facts(plan, Currency())
    assert facts["Incentives of customers"] == "$0.00 (costs $0.00) and $5.00 (costs $3.00)"


def test_the_text_of_an_evaluation_has_the_offers(page: ReportData) -> None:
    table = evaluation_markdown(page.sides, None, Currency.of(OFFERS))
    assert "| offer | rows |" in table
    assert all(f"| {name} |" in table for name in NAMES)


def test_an_account_that_gets_the_control_is_told_so() -> None:
    choices = [Choice(name, 0.1, cost) for name, cost in zip(NAMES, (0, 1, 1), strict=True)]
    told = why(choices, 0, 0.1, "optimal", Currency.of(OFFERS), ratio=False, control=True)
    assert told.startswith("No E-Mail, the control")
    held = why(choices, 0, 0.1, "holdout", Currency.of(OFFERS), ratio=False, control=True)
    assert held == "No E-Mail, because the account is in the group that the others are measured against."
