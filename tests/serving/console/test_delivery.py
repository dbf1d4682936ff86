"""Pages of a delivery: places and their prices in money, and plans with other sizes and fees."""

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, NoReturn

import httpx
import numpy as np
import pytest
from asking import ask
from looking import LOOKS, browser, faults, keyboard_faults, show
from scipy.optimize import linear_sum_assignment

from operations.common.delivery_whatif import PlaceQuestion
from serving.console.app import Console, create_app
from serving.console.budget import Questions
from serving.http.server import BoundedServer
from serving.local.launch import free_port
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.curves import Curves
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


ACCOUNTS = 100
TOLERANCE = np.repeat([2.0, 1.0], ACCOUNTS // 2)
ALLOWED = np.array([-np.inf, 2.0, -np.inf])[:, None] <= TOLERANCE


@pytest.fixture(scope="module")
def question() -> PlaceQuestion:
    value = np.vstack([np.random.default_rng(0).uniform(0, 1000, (2, ACCOUNTS)), np.zeros((1, ACCOUNTS))])
    names = np.array([f"a{i}" for i in range(ACCOUNTS)])
    return PlaceQuestion(CAMPAIGN, names, Curves(np.arange(3), value.astype(np.float32), allowed=ALLOWED))


@pytest.fixture
def app(question: PlaceQuestion, tmp_path: Path) -> Any:
    def no_budget() -> NoReturn:
        raise AssertionError("a delivery has no budget to ask about")

    questions = Questions(no_budget, lambda: "m1", lambda: question)
    return create_app(Console(CAMPAIGN, Ledger(), PriceStore(tmp_path / "prices"), questions=questions))


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def best(question: PlaceQuestion, bonds: int, shares: int, fee: float = 1.0) -> float:
    """Greatest predicted value, dollars, by an assignment of places."""
    place = np.repeat([0, 1, 2], [bonds, shares, ACCOUNTS - bonds - shares])
    worth = np.where(ALLOWED, question.curves.response * np.array([[1.0], [fee], [1.0]]), -1e9)[place]
    return float(worth[linear_sum_assignment(-worth)].sum()) / 100


def test_a_delivery_is_planned_again_with_the_sizes_and_fees_of_the_form(question: PlaceQuestion, app: Any) -> None:
    page = text_of(ask(app, "/campaigns/funds/budget", params={"size_bonds": "45", "fee_shares": "0.5"}).text)
    found = {
        name: float(value.replace(",", "")) for name, value in re.findall(r"(Today's|As asked): \$([\d.,]+)", page)
    }
    now, asked = best(question, 60, 30), best(question, 45, 30, 0.5)
    assert found == pytest.approx({"Today's": now, "As asked": asked}, abs=0.01)
    assert re.search(rf"changes the predicted value by −\${now - asked:,.2f} \[−\$", page)
    assert re.search(r"As asked.* shares 30 0\.5 .* none 25 ", page)
    # The curve has a point for each share of the sizes that fits into 100 accounts, at its own plan.
    drawn = ask(app, "/campaigns/funds/budget").text
    points = {int(n): v for n, v in re.findall(r"(\d+) places: \$([\d.,]+)", drawn)}
    assert list(points) == [23, 45, 67, 90]
    assert float(points[45]) == pytest.approx(best(question, 30, 15), abs=0.01)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size_bonds": "many"}, "size_bonds: must be a number of accounts"),
        ({"size_bonds": "-1"}, "size_bonds: must be a number of accounts"),
        ({"fee_shares": "1e9"}, "fee_shares: must be a number"),
        ({"size_bonds": "80"}, "sizes: are 110 places for 100 accounts"),
        ({"size_bonds": "20", "size_shares": "60"}, "sizes: there is no plan"),
    ],
)
def test_sizes_that_no_plan_fills_are_named_and_the_form_stays(app: Any, given: dict[str, str], told: str) -> None:
    page = ask(app, "/campaigns/funds/budget", params=given)
    assert (page.status_code, told in unescape(page.text)) == (200, True)
    assert "As asked" not in page.text
    assert f'value="{next(iter(given.values()))}"' in page.text


def test_a_person_asks_for_other_sizes_in_a_browser(app: Any, tool: Callable[[str], str]) -> None:
    server = BoundedServer(app, "127.0.0.1", port := free_port())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with browser(tool("chromium")) as opened:
            page = opened.new_page()
            show(page, *LOOKS[0])
            page.goto(f"http://127.0.0.1:{port}/campaigns/funds")
            page.get_by_role("link", name="Other sizes").press("Enter")
            page.get_by_role("group", name="bonds").get_by_label("Places").fill("45")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="As asked").wait_for()
            assert page.get_by_role("link", name="Curves").count() == 0
            assert keyboard_faults(page) == []
            for width, look in LOOKS:
                show(page, width, look)
                assert faults(page) == [], (width, look)
    finally:
        server.should_exit = True
        thread.join(30)
