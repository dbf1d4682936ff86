"""Further budgets and caps: their file, the requests that they cover, and what they refuse to be."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.errors import InvalidInput
from shadowprice.limits import Asked, Cap, GroupBudget, Limits
from shadowprice.limits.limits import MOST_LIMITS

START = datetime(2024, 5, 1, 23, 30, tzinfo=UTC)
LIMITS = Limits(
    budgets=(
        GroupBudget(name="customers", limit=700, side="customer"),
        GroupBudget(name="rush", limit=90, period="hour", partners=("p1", "p2")),
        GroupBudget(name="tried", limit=10, arm="try"),
    ),
    caps=(
        Cap(name="once", per="account", count=1, period="day"),
        Cap(name="shop", per="partner", amount=500, side="merchant"),
    ),
)


def campaign(**changes: Any) -> Campaign:
    terms: dict[str, Any] = {
        "name": "spring",
        "sides": {"customer": Terms(levels=(0, 50)), "merchant": Terms(levels=(0, 20))},
        "budget": Budget(limit=1000),
        "starts_at": START,
        "experiment": Experiment(arms=(Arm(name="try", kind="policy", share=100),), salt="s"),
    }
    return Campaign(**(terms | changes))


def test_limits_are_part_of_the_file_and_a_campaign_without_them_is_written_as_before() -> None:
    plan = campaign(limits=LIMITS)
    written = plan.to_dict()
    assert Campaign.from_dict(json.loads(json.dumps(written))) == plan
    assert written["limits"]["caps"][0] == {"name": "once", "per": "account", "count": 1, "period": "day"}
    assert "limits" not in campaign().to_dict()
    assert not Campaign.from_dict(campaign().to_dict()).limits


@pytest.mark.parametrize(
    ("asked", "sums"),
    [
        (Asked("ada", "customer", "", "holdout"), ["customers||", "once|2024-05-01|ada"]),
        (Asked("ada", "customer", "p3", "try"), ["customers||", "tried||", "once|2024-05-01|ada"]),
        (
            Asked("s|1", "merchant", "p2", "holdout"),
            ["rush|2024-05-01T23|", "once|2024-05-01|s|1", "shop||p2"],
        ),
    ],
)
def test_a_request_adds_to_the_sums_of_the_limits_that_cover_it(asked: Asked, sums: list[str]) -> None:
    elsewhere = START.astimezone(timezone(timedelta(hours=9)))
    assert list(LIMITS.sums(asked, START)) == list(LIMITS.sums(asked, elsewhere)) == sums


def test_hard_stops_by_partner_need_the_partner_of_a_request_of_their_side() -> None:
    floor = GroupBudget(name="f", limit=5, sense="at_least", partners=("p1",))
    sided = Limits(caps=LIMITS.caps, budgets=(floor, *LIMITS.budgets[:1]))
    assert [LIMITS.partner_limit(side) for side in ("customer", "merchant")] == ["rush", "shop"]
    assert [sided.partner_limit(side) for side in ("customer", "merchant")] == [None, "shop"]


def test_days_and_hours_begin_at_their_start_in_utc() -> None:
    ada = Asked("ada", "merchant", "p1", "holdout")
    later = START + timedelta(minutes=30)
    assert LIMITS.sums(ada, later)[:2] == ("rush|2024-05-02T00|", "once|2024-05-02|ada")
    assert LIMITS.current(later) == {"customers": "customers||", "rush": "rush|2024-05-02T00|", "tried": "tried||"}


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("limits", []),
        ("limits", {"floors": []}),
        ("limits", {"caps": [{"name": f"c{i}", "per": "account", "count": 1} for i in range(MOST_LIMITS + 1)]}),
        ("limits", {"caps": [{"name": "a", "per": "account", "count": 1}] * 2}),
        ("limits", {"budgets": [{"name": "budget", "limit": 1}]}),
        ("limits.side", {"caps": [{"name": "a", "per": "account", "count": 1, "side": "fund"}]}),
        ("limits.budgets", {"budgets": [{"name": "a"}]}),
        ("limits.budgets", {"budgets": [{"name": "a", "limit": 1, "region": "x"}]}),
        ("limits.budgets", {"budgets": ["a"]}),
        ("limits.budgets.name", {"budgets": [{"name": "a|b", "limit": 1}]}),
        ("limits.budgets.limit", {"budgets": [{"name": "a", "limit": -1}]}),
        ("limits.budgets.limit", {"budgets": [{"name": "a", "limit": 1.5}]}),
        ("limits.budgets.period", {"budgets": [{"name": "a", "limit": 1, "period": "year"}]}),
        ("limits.budgets.partners", {"budgets": [{"name": "a", "limit": 1, "partners": "p1"}]}),
        ("limits.budgets.partners", {"budgets": [{"name": "a", "limit": 1, "partners": [""]}]}),
        ("limits.budgets.arm", {"budgets": [{"name": "a", "limit": 1, "arm": "none"}]}),
        ("limits.budgets.side", {"budgets": [{"name": "a", "limit": 1, "side": ""}]}),
        ("limits.caps.per", {"caps": [{"name": "a", "per": "shop", "count": 1}]}),
        ("limits.caps.period", {"caps": [{"name": "a", "per": "account", "count": 1, "period": "year"}]}),
        ("limits.caps.count", {"caps": [{"name": "a", "per": "account"}]}),
        ("limits.caps.count", {"caps": [{"name": "a", "per": "account", "count": True}]}),
        ("limits.caps.amount", {"caps": [{"name": "a", "per": "account", "amount": 2**60}]}),
    ],
)
def test_limits_that_cannot_be_are_refused_with_their_field(field: str, limits: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        Campaign.from_dict(campaign().to_dict() | {"limits": limits})
    assert error.value.field == field


def test_a_delivery_has_no_limits() -> None:
    funds = Terms(levels=(0, 1), segments=(Segment(name="a", demand=1), Segment(name="b", demand=1)))
    caps = Limits(caps=(Cap(name="once", per="account", count=1),))
    with pytest.raises(InvalidInput, match="a delivery pays nothing"):
        campaign(sides={"customer": funds}, experiment=None, limits=caps)
