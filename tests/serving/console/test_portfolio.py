"""The page of a portfolio: a hundred campaigns, their returns, a proposal, moves, and what fails."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import numpy as np
import pytest
from asking import Down, ask
from looking import LOOKS, browser, faults, keyboard_faults, show

from serving.console.app import Console, create_app
from serving.console.portfolio import LIFT, PROPOSAL, PortfolioReader
from serving.ledger.moves import Move, MoveRow
from shadowprice.arms import Holdout
from shadowprice.campaign import Budget, Campaign, PortfolioTerms, Terms
from shadowprice.errors import NotFound, Unavailable
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

START = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = tuple(f"campaign-{number:03d}" for number in range(100))
REASON = "$1,200 from campaign-007 to campaign-012: $1 returns 0.31 there, 0.19 here"


class Kept:
    """A ledger of all campaigns; the money of the seventh was moved to the twelfth, and back to the giver's own."""

    def __init__(self, moves: bool) -> None:
        self.asked, self._moves = 0, moves

    def of(self, campaign: str) -> object:
        self.asked += 1
        number = int(campaign[-3:])
        if number == 40:
            return SimpleNamespace(totals=self._refuse)
        moved = {7: -120_000, 12: 120_000}.get(number, 0) if self._moves else 0
        totals = {"net_spent": 1000 * number, "money_left": 1, "moved": moved}
        rows = [self._row(number)] if moved else []
        # Campaigns without terms are not asked.
        own = {"moves": lambda: rows} if number in (7, 12) else {}
        return SimpleNamespace(totals=lambda: totals, **own)

    def _refuse(self) -> NoReturn:
        raise Unavailable("no answer") if self._moves else NotFound("no such ledger")

    def _row(self, number: int) -> MoveRow:
        prices = (0.19, 0.18, 0.2), (0.31, 0.3, 0.32)
        move = Move("m", "campaign-007", "campaign-012", 120_000, round(START.timestamp()), *prices, REASON)
        at = round((START + timedelta(hours=number)).timestamp() * 1e6)
        return MoveRow(move, "give" if number == 7 else "take", "taken", at)


def price(name: str, value: float) -> PriceRecord:
    whole = {"slot": 0, "tie_share": 0.0, "status": "optimal", "primal": 1.0, "dual": 1.0, "gap": 0.0, "violation": 0.0}
    whole |= {"spent": 0, "remaining": 1, "sample_rows": 1, "model_version": "m1", "solved_at": START}
    return PriceRecord(
        campaign=name, version=1, prices={"budget": value}, expires_at=START + timedelta(hours=2), **whole
    ).sealed()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred workspaces; the last has no place in the proposal, and its price is the newest record's."""
    root, dice = tmp_path_factory.mktemp("campaigns"), np.random.default_rng(5)
    proposal, sides = {}, {"customer": Terms(levels=(0, 50))}
    for number, name in enumerate(NAMES):
        limit = int(dice.integers(1, 90)) * 100_000
        terms = PortfolioTerms(name="company", floor=5_000 * number, cap=10**8, largest_move=10**6)
        campaign = Campaign(name=name, sides=sides, budget=Budget(limit=limit), starts_at=START)
        campaign = replace(campaign, portfolio=terms if number in (7, 12) else None)
        (root / name).mkdir()
        held = replace(campaign, holdout=Holdout(key="company", share=500))
        (root / name / "campaign.json").write_text(json.dumps(held.to_dict()))
        own, width = float(dice.gamma(6, 5e-4)), float(dice.gamma(2, 1e-4))
        PriceStore(root / name / "prices").publish(price(name, own))
        then = limit + int(dice.integers(-limit // 2, limit))
        proposal[name] = {"budget": limit, "proposed": then, "price": [own, own - width, own + width], "gained": 1.0}
        proposal[name] |= {"beyond_noise": number % 3 > 0, "floor": 5_000 * number, "cap": 10**8}
    del proposal[NAMES[-1]]
    content = {"price": 0.003, "gap": 1e-8, "gained": 321.0, "campaigns": proposal}
    (root / PROPOSAL).write_text(json.dumps(content))
    effect = {"value": 0.4, "low": 0.3, "high": 0.5}
    lift = {"lift": {"value": effect, "cost": effect | {"value": 120.0}}, "by": {}}
    (root / LIFT).write_text(json.dumps(lift | {"forgone": [800.0, 600.0, 1000.0], "saved": [24_000.0, None, None]}))
    return root


def page(folder: Path, ledger: object) -> str:
    own = Campaign.from_dict(json.loads((folder / NAMES[7] / "campaign.json").read_text()))
    reader = PortfolioReader(folder, ledger)  # type: ignore[arg-type]
    app = create_app(Console(own, Down(), PriceStore(folder / NAMES[7] / "prices"), portfolio=reader))
    assert "Portfolio</a>" in ask(app, "/").text
    answer = ask(app, "/portfolio")
    assert answer.status_code == 200, answer.text
    return answer.text


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)).split())


def test_every_campaign_has_a_line_by_what_its_last_money_returns(folder: Path) -> None:
    html = page(folder, Kept(moves=False))
    shown, proposal = text(html), json.loads((folder / PROPOSAL).read_text())["campaigns"]
    prices = {name: own["price"][0] for name, own in proposal.items()}
    last = PriceStore(folder / NAMES[-1] / "prices").latest(NAMES[-1])
    assert last is not None
    prices[NAMES[-1]] = last.prices["budget"]
    order = re.findall(r'<th scope="row">(?:<a href="[^"]+">)?(campaign-\d+)', html)
    assert order == sorted(NAMES, key=lambda name: -prices[name])
    for name in ("campaign-003", "campaign-004"):
        own = proposal[name]
        value, low, high = (100 * part for part in own["price"])
        cells = f"{name} {value:.3g} [{low:.3g}, {high:.3g}] ${own['budget'] / 100:,.2f} ${int(name[-3:]) * 10:,.2f}"
        assert cells in shown
        change = own["proposed"] - own["budget"]
        sign = "+$" if change > 0 else "−$"
        told = f"{sign}{abs(change) / 100:,.2f}{' no different' if not own['beyond_noise'] else ''}"
        assert f"${own['proposed'] / 100:,.2f} {told} ${own['floor'] / 100:,.2f} to $1,000,000.00" in shown
    assert f"{NAMES[-1]} {100 * prices[NAMES[-1]]:.3g} $" in shown
    assert "Return at the proposal 0.3" in shown
    assert "The holdout forgoes 800 [600, 1,000] of value The holdout saves $240.00" in shown
    assert "No money was moved between these campaigns" in shown
    assert "campaign-040: the ledger refused" in shown


def test_moves_are_told_once_and_change_the_budgets_and_a_page_asks_the_ledger_seldom(folder: Path) -> None:
    ledger = Kept(moves=True)
    reader = PortfolioReader(folder, ledger)  # type: ignore[arg-type]
    state = reader.read()
    assert [(move.reason, move.end, move.amount) for move in state.moves] == [(REASON, "done", "$1,200.00")]
    limits = {name: json.loads((folder / name / "campaign.json").read_text())["budget"]["limit"] for name in NAMES}
    changed = {
        line.campaign.name: line.budget - limits[line.campaign.name]
        for line in state.lines
        if line.budget != limits[line.campaign.name]
    }
    assert changed == {"campaign-007": -120_000, "campaign-012": 120_000}
    # A ledger that does not answer is asked no more; the rest of the page stays.
    assert ledger.asked == 41
    assert sum(line.paid is None for line in state.lines) == 60
    assert state.degraded == ("The ledger cannot be read: no answer.",)
    assert reader.read() is state
    assert REASON in text(page(folder, ledger))


def test_without_a_proposal_and_with_a_broken_one_the_prices_are_shown(folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    for name in NAMES[:3]:
        (few / name).mkdir(parents=True)
        content = json.loads((folder / name / "campaign.json").read_text())
        (few / name / "campaign.json").write_text(json.dumps(content))
    PriceStore(few / NAMES[1] / "prices").publish(price(NAMES[1], 0.005))
    shown = text(page_of_first(few))
    assert "There is no proposal" in shown
    assert "campaign-001 0.5 $" in shown
    assert "campaign-002 – " in shown
    # A delivery has prices of places and none of money, which is no return of 0.
    of_places = replace(price(NAMES[2], 0.0), prices={"bonds": 3.0}).sealed()
    PriceStore(few / NAMES[2] / "prices").publish(of_places)
    assert "campaign-002 – " in text(page_of_first(few))
    assert "Held out of all campaigns 5.0 %" in shown
    assert "holdout is not the same" not in shown
    (few / NAMES[2] / "campaign.json").write_text(json.dumps({**content, "holdout": None}))
    assert "The holdout is not the same in campaign-002 as in campaign-001" in text(page_of_first(few))
    (few / PROPOSAL).write_text("{")
    assert "portfolio.json cannot be read" in text(page_of_first(few))


def page_of_first(few: Path) -> str:
    own = Campaign.from_dict(json.loads((few / NAMES[0] / "campaign.json").read_text()))
    reader = PortfolioReader(few, Kept(moves=False))  # type: ignore[arg-type]
    return ask(create_app(Console(own, Down(), PriceStore(few / "none"), portfolio=reader)), "/portfolio").text


def test_a_hundred_campaigns_have_no_faults_in_a_browser_and_are_drawn_soon(
    folder: Path, tool: Callable[[str], str]
) -> None:
    page(folder, Kept(moves=True))
    began = time.perf_counter()
    html = page(folder, Kept(moves=True))
    seconds = time.perf_counter() - began
    print(f"two pages of a console, one with {len(NAMES)} campaigns: {seconds:.2f} s")
    assert seconds < 10
    with browser(tool("chromium")) as opened:
        shown = opened.new_page()
        shown.set_content(html)
        # The other widths and colors are those of the pages of test_screens.
        for width, look in (LOOKS[1], LOOKS[-1]):
            show(shown, width, look)
            assert faults(shown) == [], (width, look)
        show(shown, *LOOKS[0])
        shown.set_content(html)
        assert keyboard_faults(shown) == []
