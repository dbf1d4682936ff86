"""The page of a delivery: places and their prices in money; its budget of 0 divides nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import httpx
from asking import ask

from serving.console.app import Console, create_app
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
SEGMENTS = (Segment(name="bonds", demand=60), Segment(name="shares", demand=30, risk_level=2))
CAMPAIGN = Campaign(
    name="funds",
    sides={"customer": Terms(levels=(0, 1, 2), segments=(*SEGMENTS, Segment(name="none", demand=10)))},
    budget=Budget(name="none", limit=0),
    starts_at=NOW - timedelta(hours=1),
)


class Ledger:
    def totals(self):
        sums = {name: {"customer": 0} for name in ("authorized", "spent", "requests", "outcomes")}
        return {**sums, "outstanding": 0, "net_spent": 0, "money_left": 0.0, "places": {"bonds": 12, "shares": 30}}


def read(tmp_path: Path, path: str) -> httpx.Response:
    return ask(create_app(Console(CAMPAIGN, Ledger(), PriceStore(tmp_path / "prices"))), path)


def test_the_page_of_a_delivery_has_its_places_with_prices_in_money(tmp_path: Path) -> None:
    assert read(tmp_path, "/campaigns/funds").status_code == 200
    record = PriceRecord(
        campaign="funds",
        version=1,
        slot=1,
        prices={"bonds": 0.0, "shares": 414.0, "none": 100.0},
        tie_share=0.0,
        status="optimal",
        primal=10.0,
        dual=10.0,
        gap=0.0,
        violation=0.0,
        spent=0,
        remaining=0,
        sample_rows=100,
        model_version="m1",
        solved_at=NOW,
        expires_at=NOW + timedelta(hours=30),
    )
    PriceStore(tmp_path / "prices").publish(record.sealed())
    for path in ("/", "/campaigns/funds"):
        assert read(tmp_path, path).status_code == 200
    page = " ".join(unescape(re.sub(r"<[^>]+>", " ", read(tmp_path, "/campaigns/funds").text)).split())
    assert "shares 30 30 $3.14 one more place in shares, and one fewer in none, brings $3.14" in page
    assert "bonds 60 12 −$1.00 one more place in bonds, and one fewer in none, costs $1.00" in page
    assert "λ per" not in page
