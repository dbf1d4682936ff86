"""Sealed records that no campaign may decide by: whoever can write a file can seal it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.errors import PriceRejected
from shadowprice.pacing.price_rules import check_price, newest_usable
from shadowprice.price import LAST_VERSION, PriceRecord

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(10, 20))},
    budget=Budget(name="day", limit=1000.0),
    starts_at=NOW.replace(hour=0, minute=0),
)
SOUND: dict[str, Any] = {
    "campaign": "spring",
    "version": 3,
    "slot": 12,
    "prices": {"day": 0.01},
    "tie_share": 0.5,
    "status": "optimal",
    "primal": 10.0,
    "dual": 10.0,
    "gap": 1e-9,
    "violation": -1e-3,
    "spent": 500,
    "remaining": 500,
    "sample_rows": 100,
    "model_version": "m-1",
    "solved_at": NOW,
    "expires_at": NOW + timedelta(hours=2),
    "window": CAMPAIGN.starts_at,
}


def sealed(**changes: Any) -> PriceRecord:
    return PriceRecord(**(SOUND | changes)).sealed().verify()


@pytest.mark.parametrize("status", ["optimal", "bounded", "steered"])
def test_a_certified_price_of_the_window_is_usable(status: str) -> None:
    for record in (sealed(status=status), sealed(prices={"day": 0.0}), sealed(window=None)):
        assert check_price(record, CAMPAIGN, NOW) is record


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"campaign": "autumn"}, "not of campaign 'spring'"),
        ({"prices": {"night": 0.01}}, "no price of day"),
        ({"prices": {"day": -0.01}}, "never below 0"),
        ({"status": "infeasible"}, "status is 'infeasible'"),
        ({"gap": 2e-6}, "gap 2e-06 exceeds"),
        ({"gap": float("nan")}, "gap nan exceeds"),
        ({"gap": float("-inf")}, "gap -inf exceeds"),
        ({"violation": 1e-3}, "violation 0.001 exceeds"),
        ({"window": CAMPAIGN.starts_at - timedelta(days=1)}, "of the window from 2026-02-28"),
        ({"solved_at": NOW + timedelta(days=4), "expires_at": NOW + timedelta(days=4, hours=2)}, "clocks disagree"),
        ({"expires_at": NOW + timedelta(days=400)}, "expires at 2027"),
        ({"expires_at": NOW}, "not between its solve"),
    ],
)
def test_a_sealed_record_that_the_campaign_may_not_decide_by_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PriceRejected, match=told):
        check_price(sealed(**changes), CAMPAIGN, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2**53 + 10},
        {"version": LAST_VERSION + 1},
        {"version": True},
        {"campaign": "../spring"},
        {"model_version": "../../etc"},
        {"model_version": ".."},
    ],
)
def test_versions_and_names_that_lead_elsewhere_make_no_record(changes: dict[str, Any]) -> None:
    with pytest.raises(PriceRejected, match=next(iter(changes))):
        sealed(**changes)
    text = sealed().to_json().replace('"m-1"', '"../m-1"')
    with pytest.raises(PriceRejected, match="model_version"):
        PriceRecord.from_json(text)


def test_the_price_of_a_segment_of_exact_size_may_have_any_sign() -> None:
    terms = Terms(levels=(0, 1), segments=(Segment(name="a", demand=3), Segment(name="b", demand=4)))
    delivery = replace(CAMPAIGN, sides={"customer": terms})
    record = sealed(prices={"a": -0.5, "b": 0.5})
    assert check_price(record, delivery, NOW) is record


def test_unusable_records_are_passed_over() -> None:
    records = [
        sealed(version=5, prices={"day": -1.0}),
        sealed(version=4, status="infeasible"),
        sealed(),
        sealed(version=2),
    ]
    found = newest_usable(records, CAMPAIGN, NOW)
    assert found is not None
    assert found.version == 3
    assert newest_usable(records[:2], CAMPAIGN, NOW) is None
