import dataclasses
import xml.etree.ElementTree as ElementTree

import numpy as np

from shadowprice.campaign import Budget
from shadowprice.currency import Currency
from shadowprice.reports.spending_figures import hours


def words(svg: str) -> list[str]:
    return [each.text for each in ElementTree.fromstring(svg).iter("text")]


def test_the_hours_figure_shows_policies_plan_and_budget(example):
    shown = words(hours(example.scenarios[0], Currency(), "responses", "1"))
    for expected in (
        "solved again every hour",
        "hindsight",
        "planned at each hour's solve",
        "budget $5,000.00",
        "Paid so far",
    ):
        assert expected in shown
    assert "Price of money λ: responses that $1 must bring" in shown


def test_an_average_budget_draws_no_line_of_a_total(example):
    ratio = dataclasses.replace(example.scenarios[0], budget=Budget(form="per_account", limit=21.5))
    assert not any(text.startswith("budget") for text in words(hours(ratio, Currency(), "responses", "1")))


def test_policies_without_a_price_leave_its_panel_empty(example):
    run = example.scenarios[0]
    priceless = tuple(dataclasses.replace(policy, price=None) for policy in run.policies)
    drawn = hours(dataclasses.replace(run, policies=priceless), Currency(), "responses", "1")
    assert "Requests in the hour" in words(drawn)


def test_a_scenario_of_one_hour_can_be_drawn(example):
    run = example.scenarios[0]
    short = dataclasses.replace(
        run,
        arrivals=np.array([5.0]),
        planned_spend=None,
        policies=tuple(
            dataclasses.replace(policy, spend=policy.spend[:1], price=policy.price[:1]) for policy in run.policies
        ),
    )
    assert "<svg" in hours(short, Currency(), "responses", "1")
