"""Questions about other budgets, against solves of all accounts."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from html import unescape
from types import SimpleNamespace

import httpx
import numpy as np
import pyarrow as pa
import pytest
from asking import Down, ask
from looking import LOOKS, browser, faults, show, yen_faults

from operations.questions.question import Question
from serving.console import budget
from serving.console.app import Console, create_app
from serving.console.budget import Questions
from serving.http.handler import Application
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.errors import Unavailable
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.population import SideAccounts
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.questions import Change
from shadowprice.pacing.what_if import WhatIf

LEVELS = np.array([50, 100, 200])
ACCOUNTS = 6000


@pytest.fixture(scope="module")
def asked() -> SimpleNamespace:
    """A campaign, and its questions on a quarter of the accounts and on all of them."""
    rng = np.random.default_rng(1)
    response = -np.expm1(-np.exp(rng.normal(-1, 0.6, ACCOUNTS)) * LEVELS[:, None] / 100)
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=tuple(LEVELS.tolist()))},
        budget=Budget(limit=400_000),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        limits=Limits(budgets=(GroupBudget(name="few", limit=900_000, side="customer"),)),
    )
    curves, ahead = {"customer": Curves(LEVELS, response)}, {"customer": float(ACCOUNTS)}
    people = {"customer": SideAccounts(pa.chunked_array([np.arange(ACCOUNTS).astype(str)]), curves["customer"])}
    sample, whole = (WhatIf(campaign, curves, ahead, rows=rows) for rows in (1500, 0))
    return SimpleNamespace(campaign=campaign, question=Question(campaign, people, sample), whole=whole)


def budget_page(campaign, question, folder, **form: object):
    questions = Questions(lambda: question, lambda: "model-1")
    console = Console(campaign, Down(), PriceStore(folder / "prices"), questions=questions)
    return ask(create_app(console), "/campaigns/spring/budget", params=form)


@pytest.fixture(scope="module")
def console_of(asked, tmp_path_factory) -> Callable[[str], Application]:
    """The console of a currency, kept: it solves each budget of its curve at its first page."""

    @cache
    def make(currency: str) -> Application:
        questions = Questions(lambda: asked.question, lambda: "model-1")
        campaign = replace(asked.campaign, currency=currency)
        return create_app(Console(campaign, Down(), PriceStore(tmp_path_factory.mktemp("prices")), questions=questions))

    return make


@pytest.fixture
def get(console_of, request) -> Callable[..., httpx.Response]:
    """Asks for a page, in dollars or in the currency that the test names."""
    app = console_of(getattr(request, "param", "USD"))
    return lambda page="budget", **form: ask(app, f"/campaigns/spring/{page}", params=form)


def row(page: str, name: str) -> str:
    [found] = re.findall(rf'<th scope="row">{name}</th>(.*?)</tr>', unescape(page), re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def amounts(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\.?\d*", text)]


@pytest.mark.parametrize("budget", [3500, 4000, 4500.5, 5000, 6000])
def test_an_answer_agrees_with_a_solve_of_all_accounts_within_its_interval(asked, get, budget):
    page = get(budget=budget)
    assert page.status_code == 200
    limit, _, added, low, high, price, cheap, dear, *_ = amounts(row(page.text, "As asked"))
    exact = asked.whole.ask(Change(budget=round(100 * budget)))
    assert limit == budget
    assert low < added < high
    assert low <= exact.added.value <= high
    assert cheap <= 100 * exact.price.value <= dear
    assert cheap <= price <= dear


def test_fewer_levels_a_limit_and_a_cap_reach_the_solve(asked, get):
    found = row(get(levels_customer=[50, 100]).text, "As asked")
    exact = asked.whole.ask(Change(levels={"customer": (50, 100)}))
    assert amounts(found)[3] <= exact.added.value <= amounts(found)[4]
    limited = amounts(row(get(limit_customer="3,000").text, "As asked"))
    assert limited[1] <= 3000 * 1.001
    further = row(get(further_few="2,500").text, "As asked")
    assert amounts(further)[1] <= 2500 * 1.001
    assert amounts(further.partition("few: ")[2])[0] > 0
    capped = amounts(row(get(cap_customer="0.60").text, "As asked"))
    assert capped[2] < amounts(row(get().text, "Today's"))[2]


def test_a_campaign_for_money_is_asked_for_a_return_and_told_in_dollars(asked, tmp_path):
    sides = {"customer": replace(asked.campaign.sides["customer"], weight=500.0)}
    campaign = replace(asked.campaign, sides=sides, objective="margin", limits=Limits())
    curves = {"customer": asked.question.population["customer"].curves}
    whole = WhatIf(campaign, curves, {"customer": float(ACCOUNTS)}, rows=0)
    question = Question(campaign, asked.question.population, whole)
    found = budget_page(campaign, question, tmp_path, least_return="2.5").text
    exact = whole.ask(Change(least_return=2.5))
    limit, paid, added, price, *_ = amounts(row(found, "As asked"))
    assert (limit, price) == (exact.budget / 100, 2.5)
    assert paid == pytest.approx(exact.spend.value / 100, abs=0.01)
    assert added == pytest.approx(exact.added.value / 100, rel=1e-3)
    assert "Extra dollars of margin" in found
    assert "least_return: must be a number" in budget_page(campaign, question, tmp_path, least_return="much").text


@pytest.mark.parametrize(
    ("field", "given"),
    [
        *[("budget", given) for given in ("much", "1.005", "1e400", "nan")],
        ("cap_customer", "-1"),
        ("levels_customer", "x"),
    ],
)
def test_what_is_no_amount_is_named_and_the_form_stays(get, field, given):
    page = get(**{field: given})
    assert page.status_code == 200
    assert f"{field}: must be" in unescape(page.text)
    assert "As asked" not in page.text
    assert "Today" in page.text


@pytest.mark.parametrize("get", ["JPY"], indirect=True)
def test_pages_of_a_campaign_in_yen_take_and_show_whole_yen(get):
    page = get(budget=420_000, cap_customer=60, levels_customer=[50, 100]).text
    assert "¥420,000" in row(page, "As asked")
    for each in (page, get("curves").text):
        assert "¥100" in each
        assert yen_faults(each) == []
    assert "budget: must be an amount of at most 0 decimals" in unescape(get(budget=420_000.5).text)


@pytest.mark.parametrize("name", ["budget", "curves"])
def test_the_page_has_no_faults_in_a_browser(get, tool, name):
    text = get(name, budget=5000, levels_customer=[50]).text
    assert "<title>" in text.split("<svg", 1)[1]
    with browser(tool("chromium")) as opened:
        page = opened.new_page()
        page.set_content(text)
        for width, look in LOOKS:
            show(page, width, look)
            assert faults(page) == [], (width, look)


@pytest.mark.parametrize("amount", ["1e999999999", "1e-999999999", "NaN", "-1", "0x10", "1" * 40, "1.2345678901"])
def test_an_amount_that_is_none_is_refused_cleanly(get, amount):
    answer = get(budget=amount)
    assert answer.status_code == 200
    assert "budget: must be an amount" in unescape(answer.text)


@pytest.mark.parametrize(
    "where",
    [
        "[1,2,3,4,5,6,7,8,9].map(a,[1,2,3,4,5,6,7,8,9].map(b,[1,2,3,4,5,6,7,8,9].map(c,c))).size() > 0",
        "[1,2,3,4,5,6,7,8,9].all(a, " * 8 + "true" + ")" * 8,
        '"a".matches("(a{1,300}){1,300}b")',
        "(" * 300 + "true" + ")" * 300,
    ],
)
def test_a_condition_that_would_freeze_the_console_is_refused_at_once(get, where):
    started = time.process_time()
    answer = get(where=where, limit_where="10")
    assert time.process_time() - started < 5
    assert (answer.status_code, "limits." in unescape(answer.text)) == (200, True)


def test_a_question_waits_for_the_one_before_it_and_not_for_ever(asked, get, monkeypatch):
    monkeypatch.setattr(budget, "TURN_SECONDS", 0.05)
    questions = Questions(lambda: asked.question, lambda: "model-1")
    with (
        questions.asking(),
        pytest.raises(Unavailable, match="another question is being answered"),
        questions.asking(),
    ):
        pass


def test_a_sum_of_a_second_outcome_is_asked_about_in_its_unit_and_period(tmp_path):
    """Nobody may get the dearest level alone: complaints by level are known, and the answer keeps their sum."""
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(50, 100, 200))},
        budget=Budget(limit=10**9),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        limits=Limits(
            budgets=(
                GroupBudget(name="calm", limit=100.0, outcome="x_calls"),
                GroupBudget(name="daily", limit=100.0, outcome="x_calls", period="day"),
            )
        ),
    )
    response = np.array([[0.1], [0.2], [0.4]]) * np.ones(ACCOUNTS)
    curves = {"customer": Curves(LEVELS, response, guards={"x_calls": np.array([0.001, 0.005, 0.011])})}
    people = {"customer": SideAccounts(pa.chunked_array([np.arange(ACCOUNTS).astype(str)]), curves["customer"])}
    question = Question(campaign, people, WhatIf(campaign, curves, {"customer": float(ACCOUNTS)}, rows=0))
    page = budget_page(campaign, question, tmp_path, further_calm="36").text
    assert re.findall(r"Limit (\w+, x_calls[^<]*)</label>", page) == ["calm, x_calls", "daily, x_calls a day"]
    # All may get the dearest today; of 36 the lowest level takes 6, and the rest buys 3,000 times the dearest.
    assert amounts(row(page, "Today's"))[2] == pytest.approx(0.3 * ACCOUNTS, rel=1e-3)
    assert amounts(row(page, "As asked"))[2] == pytest.approx(0.3 * 3000, rel=1e-3)
    assert "these terms cannot be met" in row(
        budget_page(campaign, question, tmp_path, further_calm="5").text, "As asked"
    )
