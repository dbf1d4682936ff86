"""Budgets, caps and rules that change what a request is given."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from local_ledger import LocalLedger, customers

from serving.protocol import Requests
from shadowprice.campaign import Budget
from shadowprice.curves import Curves
from shadowprice.errors import InvalidContext
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import INFLUENCE, Attributes
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.policies import PricedPolicy


def test_a_budget_per_response_charges_what_exceeds_the_allowance(build, kit, heads):
    terms = kit.campaign(budget=Budget(form="per_response", limit=60.0))
    price = kit.price(price=0.01)
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    accounts = [f"m{i}" for i in range(40)]
    ids = [f"r{i}" for i in range(40)]
    answers = build(terms=terms, price=price)[0].answer(Requests(ids, accounts, ["merchant"] * 40))
    curve = heads["merchant"].response(np.stack([frame["merchant", name] for name in accounts])).astype(float)
    score = 0.5 * curve - 0.01 * (np.array([20, 60, 100])[:, None] - 60.0)
    np.testing.assert_array_equal(answers.level, score.argmax(axis=0))


def test_an_exhausted_budget_gives_the_level_without_incentive(build, kit, heads):
    terms = kit.campaign(budget=Budget(form="total", limit=200))
    answers = build(terms=terms, price=kit.price(price=0.0))[0].answer(customers("c1", "c2", "c3"))
    assert answers.incentive.tolist() == [130, 0, 0]
    assert answers.reason == ["optimal", "budget_exhausted", "budget_exhausted"]
    assert answers.level.tolist() == [3, 0, 0]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    unpaid = heads["customer"].response(frame["customer", "c2"][None])[0, 0]
    assert (answers.response[1], answers.expected_cost[1], answers.propensity[1]) == (unpaid, 0.0, 1.0)


def test_an_exhausted_budget_gives_nothing_where_every_level_costs(build, kit):
    terms = kit.campaign(budget=Budget(form="total", limit=19))
    answers = build(terms=terms)[0].answer(Requests(["r"], ["m1"], ["merchant"]))
    assert (answers.level[0], answers.incentive[0], answers.response[0]) == (-1, 0, 0.0)
    assert answers.reason == ["budget_exhausted"]


def test_service_and_replay_give_nothing_where_a_rule_forbids_the_level_without_incentive(build, kit, heads):
    """Requests of accounts that are allowed level 0 beside others, until the budget is exhausted."""
    names = [f"c{i}" for i in range(12)]
    forbidden = " || ".join(f'account.c_name == "{name}"' for name in names[::2])
    rule = Rule(name="always-paid", expression=f"({forbidden}) && offer.incentive == 0", side="customer")
    terms = kit.campaign(rules=(rule,), budget=Budget(form="total", limit=600), exploration=0.2)
    attributes = {"customer": Attributes.of(names, {"c_name": names})}
    ledger, price = LocalLedger(terms), kit.price(price=0.004)
    answers = build(terms=terms, ledger=ledger, attributes=attributes, price=price)[0].answer(customers(*names))
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in names]))
    model = {"customer": NamedCurves(np.array(names), Curves(terms.terms("customer").levels, curve))}
    replay = PricedPolicy(
        terms, model, SimulatedLedger(terms, {}, terms.coverage(attributes)), hard_stop=True, price=price
    )
    ids = np.array([f"r{i}" for i in range(12)])
    replayed = replay(Day(ids, np.array(names), np.full(12, "customer"), np.zeros(12), 1))
    for name in ("level", "propensity"):
        assert list(getattr(answers, name)) == list(getattr(replayed, name))
    exhausted = [row for row, reason in enumerate(answers.reason) if reason == "budget_exhausted"]
    assert {int(answers.level[row]) for row in exhausted if row % 2 == 0} == {-1}
    assert {int(answers.level[row]) for row in exhausted if row % 2 == 1} == {0}
    assert not answers.response[answers.level == -1].any()
    assert not any(answers.level[row] == 0 for row in range(0, 12, 2))
    (message,) = ledger.messages
    assert message.items.unpaid_allowed == [False, True] * 6


def test_service_and_replay_count_the_influence_on_partners_in_the_decision_and_not_in_the_response(build, kit, heads):
    names, plain = [f"m{i}" for i in range(40)], kit.campaign()
    sides = {**plain.sides, "merchant": replace(plain.sides["merchant"], influence="influence.parquet")}
    terms, price = replace(plain, sides=sides), kit.price(price=0.004)
    influence = np.where(np.arange(40) % 2, 0.003, 0.0)
    table = Attributes.of(names, {INFLUENCE: influence.tolist()})
    attributes = {"merchant": replace(Attributes.of([], {}), influence=table)}
    ids, side = [f"r{i}" for i in range(40)], ["merchant"] * 40
    answers = build(terms=terms, attributes=attributes, price=price)[0].answer(Requests(ids, names, side))
    before = build(terms=plain, price=price)[0].answer(Requests(ids, names, side))
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = heads["merchant"].response(np.stack([frame["merchant", name] for name in names]))
    paid = np.array([20, 60, 100])[:, None]
    expected = (0.5 * curve.astype(float) + influence * paid - 0.004 * paid).argmax(axis=0)
    np.testing.assert_array_equal(answers.level, expected)
    assert (answers.level != before.level).any()
    np.testing.assert_array_equal(answers.level[::2], before.level[::2])
    # The watch compares these with what comes.
    np.testing.assert_array_equal(answers.response, curve[answers.level, np.arange(40)])
    np.testing.assert_array_equal(answers.expected_cost, paid[answers.level, 0])
    model = {"merchant": NamedCurves(np.array(names), Curves(terms.terms("merchant").levels, curve))}
    replay = PricedPolicy(terms, model, SimulatedLedger(terms, {}, terms.coverage(attributes)), price=price)
    replayed = replay(Day(np.array(ids), np.array(names), np.array(side), np.zeros(40), 1))
    np.testing.assert_array_equal(replayed.level, answers.level)


def test_an_answer_that_a_cap_of_the_account_changes_is_capped_and_stays_so(build, kit):
    once = Limits(caps=(Cap(name="once", per="account", count=1),))
    predictor, _ = build(terms=kit.campaign(limits=once), price=kit.price(price=0.0))
    asked = Requests(["r1", "r2", "r3"], ["c1", "c1", "c2"], ["customer"] * 3)
    for _ in range(2):
        answers = predictor.answer(asked)
        assert answers.incentive.tolist() == [130, 0, 130]
        assert answers.reason == ["optimal", "capped", "optimal"]
        assert answers.limited_by == ["", "once", ""]
        assert answers.offer_id == ["customer-130", "customer-0", "customer-130"]
    assert answers.repeat.all()


def test_a_cap_per_partner_and_a_budget_of_partners_bind_requests_and_cannot_be_left_out(build, kit):
    limits = Limits(
        caps=(Cap(name="shop", per="partner", count=1, side="customer"),),
        budgets=(GroupBudget(name="north", limit=150, partners=("m1", "m2"), side="customer"),),
    )
    predictor, _ = build(terms=kit.campaign(limits=limits), price=kit.price(price=0.0))
    partners = ["m1", "m1", "m2", "m3"]
    names = [f"c{row}" for row in range(5)]
    answers = predictor.answer(Requests(names[:4], names[:4], ["customer"] * 4, partners))
    # m1 has had its incentive; m2 would take the budget of the two past 150; m3 is in no group.
    assert answers.incentive.tolist() == [130, 0, 0, 130]
    assert answers.reason == ["optimal", "capped", "budget_exhausted", "optimal"]
    assert answers.limited_by == ["", "shop", "north", ""]
    without = Requests(["new-3", "new-4"], names[3:], ["merchant", "customer"])
    with pytest.raises(InvalidContext, match=r"partner_id: .*'customer'.*'shop'.*first rows: 1") as refused:
        predictor.answer(without)
    assert refused.value.status == 422
    with pytest.raises(InvalidContext):
        asyncio.run(predictor.predictor.explain(without))
    assert predictor.answer(Requests(["m"], ["m1"], ["merchant"])).reason == ["optimal"]


def test_a_budget_of_one_side_adds_its_price_to_that_side_alone(build, kit, heads):
    limits = Limits(budgets=(GroupBudget(name="buyers", limit=10**6, side="customer"),))
    campaign = kit.campaign(limits=limits)
    price = kit.price(prices={"budget": 0.002, "buyers": 0.003})
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    for side, total in (("customer", 0.005), ("merchant", 0.002)):
        names = [f"{side[0]}{row}" for row in range(60)]
        answers = build(terms=campaign, price=price)[0].answer(Requests(names, names, [side] * 60))
        response = heads[side].response(np.stack([frame[side, name] for name in names]))
        terms = campaign.terms(side)
        expected = np.argmax(terms.value(response) - total * terms.cost(response), axis=0)
        np.testing.assert_array_equal(answers.level, expected)
