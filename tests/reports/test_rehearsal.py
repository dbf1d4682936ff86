import dataclasses
import re

import numpy as np

from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.reports.rehearsal import against, price_sentence, solve_sentence
from shadowprice.reports.report import render


def changed(example, at: int, **entries):
    run = example.scenarios[0]
    policies = [*run.policies]
    policies[at] = dataclasses.replace(policies[at], **entries)
    return dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=tuple(policies)),))


def cells(example, row: str) -> str:
    """Text of the first row of the page's tables that begins with a name."""
    start = rf'<tr[^>]*><th scope="row">(?:<span[^>]*></span>)?{row}</th>'
    found = re.findall(rf"{start}(.*?)</tr>", render(example), re.DOTALL)[0]
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_a_worse_day_than_a_static_price_is_told_as_plainly_as_a_better_one(example):
    # Over the lowest level, share of the possible, paid, against the limit.
    one = dataclasses.replace(example, scenarios=example.scenarios[:1])
    assert cells(one, "solved again every hour") == "4,292 98.1 % $4,991.00 0.18 % below"
    assert cells(one, "price kept from the start").startswith("4,001 91.4 %")
    assert cells(changed(example, 1, value=10_412.4 / 0.988), "price kept from the start").startswith("4,419 101.0 % *")


def test_a_share_of_a_gain_that_may_be_nothing_is_not_shown(example):
    run = dataclasses.replace(example.scenarios[0], shares=False)
    assert cells(dataclasses.replace(example, scenarios=(run,)), "solved again every hour").startswith("4,292 – ")
    assert np.isnan(run.of_best(run.policies[0]))


def test_the_price_of_money_is_told_as_what_one_dollar_brings_and_one_response_costs(example):
    flat = changed(example, 0, price=np.full(24, 0.004))
    assert price_sentence(flat) == (
        "One more $1 brings 0.4 redemptions or 0.8 shares: one extra redemption costs $2.50 and one extra share costs "
        "$1.25 (λ, mean of the day)."
    )
    assert price_sentence(changed(example, 0, price=None)) == ""
    assert price_sentence(dataclasses.replace(example, scenarios=())) == ""


def test_a_share_above_all_that_is_possible_gives_its_reason(example):
    more = changed(example, 0, value=10_600.0, mean_cost=510_000.0)
    assert cells(more, "solved again every hour").startswith("4,480 102.4 % *")
    assert "above 100 %: its outcomes cost less than their mean, which is 102.0 % of the budget" in render(more)
    assert more.scenarios[0].why_above(example.scenarios[0].policies[0]) == ""


def test_where_nothing_is_possible_no_share_is_told(example):
    run = example.scenarios[0]
    poor = dataclasses.replace(run, attainable=Attainable(lowest=10_500.4, flat=np.nan, best=10_500.4))
    assert " – " in cells(dataclasses.replace(example, scenarios=(poor,)), "solved again every hour")


def test_a_run_that_overspent_is_not_compared_with_the_optimum(example):
    over = changed(example, 0, spend=np.full(24, 30_000.0))
    assert cells(over, "solved again every hour") == "4,292 – $7,200.00 44.00 % over"
    run = over.scenarios[0]
    assert against(run, run.policies[0]) == "44.00 % over"


def test_the_solves_sentence_counts_only_what_was_published(example):
    worst = dataclasses.replace(example.solves[0], gap=0.5, published=False)
    told = solve_sentence((*example.solves[1:3], worst))
    assert told.startswith("3 solves, 2 published.")
    assert "0.5" not in told
    assert solve_sentence(()) == ""
