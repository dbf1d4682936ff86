"""The one-page summary says what the evidence says, and no more."""

import dataclasses
import re
from datetime import UTC, datetime
from html import unescape

import numpy as np
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.evaluation.policy.gate import Check, GateResult
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.reports.data import ReportData
from shadowprice.reports.headline import headline
from shadowprice.reports.mix import Mix
from shadowprice.reports.one_page import FILE, budgets, checks, given, render_one_page, worth_it
from shadowprice.reports.rehearsal import price_sentence
from shadowprice.reports.run import worth_summary
from shadowprice.reports.stored import store_report


def text(page: str) -> str:
    return " ".join(unescape(re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


@pytest.fixture
def sure(example: ReportData) -> ReportData:
    """The example with the side alone whose effect is identified."""
    return dataclasses.replace(example, evidence=tuple(e for e in example.evidence if e.verdict == "identified"))


def changed(data: ReportData, **found: Estimate) -> ReportData:
    assert data.worth is not None
    points = tuple(dataclasses.replace(point, **found) for point in data.worth.points)
    return dataclasses.replace(data, worth=dataclasses.replace(data.worth, points=points))


def test_it_is_worth_it_where_extra_responses_are_shown_and_names_what_one_costs(sure):
    answer = worth_it(sure)
    assert answer.word == "Yes, if one extra response is worth more than $0.82 to you"
    assert "95 % interval $0.78 to $0.86" in answer.why
    assert "bring more than the best mixture" in answer.why


def test_it_is_unknown_where_nothing_is_identified_and_the_trial_that_would_tell_is_named(example):
    absent = {"worth": "the trial does not identify the effect of the incentives of merchants"}
    answer = worth_it(dataclasses.replace(example, absent=absent))
    assert answer.word == "Unknown"
    assert "does not identify" in answer.why
    assert "A trial that would tell: shadowprice plan RUN" in answer.why
    assert budgets(dataclasses.replace(example, absent=absent)) == []


@pytest.mark.parametrize(("passed", "word"), [(True, "Yes, compared with what it replaces"), (False, "Unknown")])
def test_without_levels_of_an_incentive_the_answer_is_what_the_gate_compared(example, passed, word):
    rule = "value of the plan on held-out deliveries above that of random eligible placing by its lower bound"
    checks = (Check("campaign", rule, "$0.17 [$0.04, $0.29] an account", passed, required=False),)
    bare = dataclasses.replace(example, worth=None, absent={}, evidence=(), gate=GateResult(True, checks))
    answer = worth_it(bare)
    assert answer.word == word
    assert answer.why == f"Of rows that the model had not learned from, {rule}: $0.17 [$0.04, $0.29] an account."
    refused = dataclasses.replace(bare, gate=GateResult(False, checks))
    assert worth_it(refused).word == "Unknown"


@pytest.mark.parametrize(("lowest", "word"), [((-5.0, 9.0), "Unknown"), ((-9.0, -1.0), "No"), ((1.0, 9.0), "Yes")])
def test_the_answer_follows_the_interval_of_the_extra_responses(sure, lowest, word):
    found = changed(sure, lowest=Estimate(sum(lowest) / 2, *lowest))
    assert worth_it(found).word.split(",")[0] == word


def in_money(data: ReportData, least: float = 0.0) -> ReportData:
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50), weight=400.0)},
        budget=Budget(limit=900_000),
        starts_at=datetime(2027, 6, 1, tzinfo=UTC),
        objective="margin",
        least_return=least,
    )
    return dataclasses.replace(data, campaign=campaign)


@pytest.mark.parametrize(
    ("each", "least", "word", "told"),
    [
        ((0.74, 0.6, 0.9), 0.0, "Yes", "Each $1 that is paid returns $1.35 of margin (95 % interval $1.11 to $1.67)"),
        ((0.74, 0.6, 0.9), 1.3, "Unknown", "It is not shown that this is the $1.30 asked."),
        ((0.74, 0.6, 1.1), 0.0, "Unknown", "It is not shown that this is the $1.00 asked."),
        ((1.6, 1.25, 2.0), 0.0, "No", "interval $0.50 to $0.80): less than the $1.00 asked."),
        ((0.2, -0.1, 0.5), 0.0, "Yes", "interval $2.00 to more)"),
        ((-0.2, -0.3, -0.1), 0.0, "Yes", "and costs no more"),
        (None, 0.0, "Unknown", "too uncertain to be named"),
    ],
)
def test_in_money_the_answer_is_the_return_on_what_is_paid(sure, each, least, word, told):
    found = changed(
        in_money(sure, least), each=None if each is None else Estimate(*each), lowest=Estimate(900, 700, 1100)
    )
    answer = worth_it(found)
    assert answer.word == word
    assert told in answer.why
    assert answer == worth_it(found.told())


def test_values_in_money_are_read_in_major_units_and_kept_in_minor_ones(sure):
    plain, found = sure, in_money(sure)
    told = text(render_one_page(found, "report.html"))
    now = found.worth.at(1.0)
    assert "more dollars of margin" in told
    assert found.told().worth.at(1.0).lowest.value == pytest.approx(now.lowest.value / 100)
    assert found.told().worth.at(1.0).each.value == pytest.approx(100 * now.each.value)
    assert found.told().scenarios[0].policies[0].value == pytest.approx(found.scenarios[0].policies[0].value / 100)
    assert found.told().solves[0].price == pytest.approx(found.solves[0].price / 100)
    assert found.told().told() is not None
    assert found.told().told().worth == found.told().worth
    assert plain.told() is plain
    assert worth_summary(found)["unit"] == "dollars of margin"
    page = headline(found)
    assert page is not None
    assert page == headline(found.told())
    assert "more dollars of margin" in page.sentence
    assert any(tile.name == "Cost per extra $1 of margin" for tile in page.tiles)
    sentence = price_sentence(found.told())
    assert sentence.startswith("The last $1 returns $")
    assert sentence.endswith("of margin (λ, mean of the day).")


def test_a_flat_policy_is_advised_where_it_brings_more_at_the_same_cost(sure):
    assert "serve the flat policy" in worth_it(changed(sure, flat=Estimate(-5.0, -9.0, -1.0))).why
    assert "is not shown" in worth_it(changed(sure, flat=Estimate(1.0, -9.0, 11.0))).why


def test_a_refused_run_says_what_is_served_until_then_and_without_jargon(example):
    gate = dataclasses.replace(example.gate, passed=False)
    claim = dataclasses.replace(example.evidence[1], claim="Not identified: the log does not show it.")
    refused = dataclasses.replace(
        example, gate=gate, evidence=(claim,), absent={"worth": "the gate refused the model"}, notes=("Until then.",)
    )
    assert worth_it(refused).why.endswith("Until then.")
    assert "Merchants: the log does not show it." in text(render_one_page(refused, "report.html"))


def test_fewer_responses_are_no_extra_ones_and_have_their_reason(sure):
    fewer = budgets(changed(sure, lowest=Estimate(-286.0, -400.0, -172.0)))
    assert all("bring 286 fewer weighted responses [−400, −172] than" in each.told for each in fewer)
    assert all("its curves expect a gain that these rows lack" in each.told for each in fewer)
    chance = budgets(changed(sure, lowest=Estimate(-286.0, -600.0, 28.0)))
    assert all("the difference of −286 [−600, 28] may be chance" in each.told for each in chance)


def test_each_group_is_told_by_what_most_of_its_requests_got(sure):
    cells = {"level": np.array([0, 1, 1]), "requests": np.array([1, 3, 5]), "cost": np.array([20, 180, 200])}
    mix = Mix(
        side=np.array(["customer"] * 3),
        segment=np.array(["middle", "middle", "most responsive"]),
        hour=np.zeros(3, dtype=np.int64),
        incentive=np.array([20, 60, 60]),
        responses=np.ones(3),
        **cells,
    )
    assert given(dataclasses.replace(sure, mix=mix)) == {
        "Customers, middle": "75 % got $0.60; 50 % of all that was paid",
        "Customers, most responsive": "100 % got $0.60; 50 % of all that was paid",
    }


def test_the_page_has_each_answer_and_a_broken_check_is_no_tick(sure, tmp_path):
    store_report(sure, tmp_path)
    page = (tmp_path / FILE).read_text()
    assert "<script" not in page
    shown = text(page)
    for told in (
        "Is it worth it? Yes, if",
        "Customers: The sentence of customers.",
        "20 % less, $",
        "That is 112 more [52.4, 172] than the best flat mixture",
        "fewer than today; each of them saves $",
        "Yes: a rehearsed day, with drawn outcomes, paid $4,991.00 of its budget of $5,000.00",
        "Can I trust this?",
    ):
        assert told in shown, told
    assert sure.gate is not None
    refused = dataclasses.replace(sure.gate, passed=False)
    assert (False, f"The model does not meet {len(refused.broken)} of its rules.") in list(
        checks(dataclasses.replace(sure, gate=refused))
    )


def test_a_run_without_a_figure_still_has_a_page(example):
    bare = ReportData(title="Campaign x", dataset="tables", created_at=example.created_at, simulated=False)
    assert "Is it worth it? Unknown" in text(render_one_page(bare, "report.html"))
