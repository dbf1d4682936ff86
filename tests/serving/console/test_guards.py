"""A limit on a second outcome on the pages that read and write limits: its unit is no money."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asking import Down, ask
from starlette.datastructures import QueryParams

from cli.whatif import _limits
from serving.console.app import Console, create_app
from serving.console.budget import change_of
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.errors import InvalidRequest
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.price_store import PriceStore
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


class Up:
    """A ledger that answers: the group of the north used 390 of 400."""

    def totals(self) -> dict[str, Any]:
        sums = {name: {"customer": 0} for name in ("requests", "outcomes")}
        limits = [{"budget": "north", "period": "campaign", "limit": 400, "used": 390}]
        return {**sums, "outstanding": 0, "net_spent": 10, "money_left": 8990.0, "places": {}, "limits": limits}


def test_a_page_without_scarce_money_names_the_limit_that_binds_and_what_it_does_not_know(
    kit: Any, tmp_path: Path
) -> None:
    sums = GroupBudget(name="calm", limit=30, outcome="x_complaints")
    campaign = replace(CAMPAIGN, limits=Limits(budgets=(sums, *CAMPAIGN.limits.budgets[1:])))
    record = kit.price(prices={"budget": 0.0, "calm": 1.5, "north": 0.0}, plans={"calm": (6.25, 29.5)}, slot=0)
    dates = {"solved_at": campaign.starts_at, "expires_at": campaign.ends_at, "window": campaign.starts_at}
    PriceStore(tmp_path / "prices").publish(replace(record, campaign="spring", **dates).sealed())

    def page(ledger: Any, path: str) -> str:
        text = ask(create_app(Console(campaign, ledger, PriceStore(tmp_path / "prices"))), path).text
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())

    known, unknown = page(Up(), "/campaigns/spring"), page(Down(), "/campaigns/spring")
    for shown in (known, unknown):
        assert re.search(r"λ per \$1 0 [^;]*; calm binds", shown), shown
    assert "calm 6.25 30 campaign x_complaints of all requests 29.5 21.2 % 1.5 a unit binds" in known
    assert "north $3.90 $4.00" in known
    assert "not known" not in known
    assert "calm binds; what binds now is not known" in unknown
    assert "calm – 30 campaign" in unknown
    assert "north – $4.00" in unknown
    assert "when the newest price was solved; today's is not known" in unknown
    assert "what is used is not known while the ledger does not answer" in unknown
    assert "0 ; calm binds; what binds now is not known" in page(Down(), "/").replace("0;", "0 ;")


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
