"""A limit on a second outcome on the pages that read and write limits: its unit is no money."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from cli.whatif import _limits
from serving.console.budget import change_of
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.errors import InvalidRequest
from shadowprice.limits import GroupBudget, Limits
from shadowprice.price import PriceRecord
from shadowprice.reports.budgets import further_budgets

CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 100))},
    budget=Budget(limit=9000),
    starts_at=datetime(2026, 3, 2, tzinfo=UTC),
    limits=Limits(
        budgets=(
            GroupBudget(name="calm", limit=0.03, form="per_account", outcome="x_complaints"),
            GroupBudget(name="north", limit=400, where='account.c_region == "north"'),
        )
    ),
)
DOLLARS = Currency()


def test_a_question_reads_the_limit_of_an_outcome_as_a_number_and_others_as_money() -> None:
    question: Any = SimpleNamespace(campaign=CAMPAIGN)
    change = change_of(QueryParams("further_calm=0.0225&further_north=12.50"), question, DOLLARS)
    assert change is not None
    assert change.limits == {"calm": 0.0225, "north": 1250}
    with pytest.raises(InvalidRequest, match="must be a number"):
        change_of(QueryParams("further_calm=few"), question, DOLLARS)
    assert _limits(["calm=0.0225", "north=$12.50"], CAMPAIGN, DOLLARS) == {"calm": 0.0225, "north": 1250}


def test_a_report_writes_the_limit_and_the_price_of_an_outcome_in_its_own_unit(kit: Any) -> None:
    assert (CAMPAIGN.read_per("calm"), CAMPAIGN.read_per("north"), CAMPAIGN.read_per("budget")) == (1, 100, 100)
    record: PriceRecord = kit.price(prices={"budget": 0.002, "calm": 1.5, "north": 0.01}, plans={"calm": (0.0, 6.25)})
    calm, north = further_budgets(CAMPAIGN, replace(record, campaign="spring", sha256=""))
    shown = [calm.amount(each, DOLLARS) for each in (calm.limit, calm.plan, calm.used)]
    assert [*shown, calm.priced(DOLLARS), calm.group] == [
        "0.03",
        "6.25",
        "–",
        "1.5 a unit",
        "x_complaints of all requests",
    ]
    assert [north.amount(north.limit, DOLLARS), north.priced(DOLLARS)] == ["$4.00", "1"]
