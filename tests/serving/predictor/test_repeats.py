"""A request id that was answered before has that answer, whatever has changed since."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from local_ledger import LocalLedger, NoLedger, NoReader, customers, decided

from serving.protocol import OUTPUTS, Requests
from shadowprice.errors import Conflict, InvalidContext, Unavailable
from shadowprice.limits import Cap, Limits


def test_the_same_request_in_one_call_and_in_the_next_gets_the_first_answer(build, kit):
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger, price=kit.price(price=0.0))[0].answer(
        Requests(["r", "s", "r"], ["c1", "c2", "c1"], ["customer"] * 3)
    )
    again = build(ledger=ledger, price=kit.price(price=0.5))[0].answer(Requests(["r"], ["c1"], ["customer"]))
    assert (first.repeat.tolist(), again.repeat.tolist()) == ([False, False, True], [True])
    for name in OUTPUTS:
        if name == "repeat":
            continue
        values = getattr(first, name)
        assert values[0] == values[2] == getattr(again, name)[0]
    other = build(price=kit.price(price=0.5))[0].answer(Requests(["r"], ["c1"], ["customer"]))
    assert other.level[0] != again.level[0]


def test_a_repeat_gets_its_answer_after_model_or_limits_came_to_refuse_its_context_or_partner(build, kit):
    """One micro-batch: a repeat, a repeat beside a new request, a conflict, a new request, and one that is decided."""
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger)[0].answer(customers("c1", "c2"))
    shop = Limits(caps=(Cap(name="shop", per="partner", count=1, side="customer"),))
    read_no_more = {"x_basket": [1.4, None]}
    for terms, context in ((kit.campaign(), read_no_more), (kit.campaign(limits=shop), {})):
        asked, registry = build(terms=terms, ledger=ledger)
        new = {"x_basket": [1.4]} if context else {}
        merchant = Requests(["m" + str(bool(context))], ["m1"], ["merchant"])
        repeat, mixed, taken, fresh, decided = asked.answer_all(
            [
                replace(customers("c1", "c2"), context=context),
                replace(
                    customers("c1", "c2", "c3"), context={name: [*column, None] for name, column in context.items()}
                ),
                Requests(["r0"], ["c9"], ["customer"], context=new),
                Requests(["other"], ["c4"], ["customer"], context=new),
                merchant,
            ]
        )
        assert repeat.repeat.all()
        for name in ("level", "propensity", "response", "reason"):
            assert list(getattr(repeat, name)) == list(getattr(first, name))
        assert [type(each) for each in (mixed, taken, fresh)] == [InvalidContext, Conflict, InvalidContext]
        assert not decided.repeat.any()
        labels = {"campaign": "spring", "side": "customer", "reason": "ineligible"}
        assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == 0
    assert ledger.recorded() == ["r0", "r1", "mTrue", "mFalse"]


def test_without_the_ledger_a_call_with_context_that_is_not_read_is_not_answered(build):
    wrong = replace(customers("c1"), context={"x_basket": [1.4]})
    with pytest.raises(Unavailable):
        build(ledger=NoLedger())[0].answer(wrong)
    with pytest.raises(InvalidContext):
        build(ledger=NoLedger(), authorization_required=False)[0].answer(wrong)


@pytest.mark.parametrize(("account", "side"), [("c2", "customer"), ("c1", "merchant")])
def test_a_request_id_used_for_another_account_or_side_is_a_conflict(build, account, side):
    ledger = LocalLedger(build()[0].predictor.campaign)
    predictor, _ = build(ledger=ledger)
    with pytest.raises(Conflict, match="'r'"):
        predictor.answer(Requests(["r", "r"], ["c1", account], ["customer", side]))
    predictor.answer(Requests(["r"], ["c1"], ["customer"]))
    with pytest.raises(Conflict, match="'r'"):
        predictor.answer(Requests(["q", "r"], ["c9", account], ["customer", side]))
    assert ledger.recorded() == ["r"]


def test_a_repeat_has_the_reason_and_the_versions_of_the_original_decision(build, kit):
    ledger = LocalLedger(kit.campaign())
    now = datetime.now(UTC)
    stale = kit.price(3, solved_at=now - timedelta(hours=3), expires_at=now - timedelta(seconds=1))
    first = build(ledger=ledger, price=stale)[0].answer(customers("c1"))
    later, _ = build(ledger=ledger, price=kit.price(8, price=0.5))
    source = later.predictor.source
    source.current = replace(source.current, model=replace(source.current.model, version="test-model-2"))
    again = later.answer(customers("c1", "c2"))
    assert (first.reason, first.price_version.tolist(), first.model_version) == (["stale_price"], [3], ["test-model-1"])
    assert decided(again) == decided(first)
    assert again.repeat.tolist() == [True, False]
    assert (again.price_version.tolist(), again.model_version) == ([3, 8], ["test-model-1", "test-model-2"])
    assert (again.active_price_version, again.active_model_version, again.degraded) == (8, "test-model-2", False)


def test_a_repeat_is_the_first_answer_also_when_the_feature_store_fails(build, kit):
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger)[0].answer(customers("c1"))
    again = build(ledger=ledger, reader=NoReader())[0].answer(customers("c1", "c2"))
    assert decided(again) == decided(first)
    assert (again.reason, again.repeat.tolist()) == (["optimal", "cold_start"], [True, False])
    assert again.degraded


@pytest.fixture
def nobody_is_eligible(monkeypatch):
    def bar():
        monkeypatch.setattr(
            "serving.predictor.wanted.allowed_by",
            lambda head, matrix: np.zeros((len(head.levels), len(matrix)), dtype=bool),
        )

    return bar


def test_a_repeat_is_the_first_answer_also_when_the_account_is_not_eligible_any_more(build, kit, nobody_is_eligible):
    ledger = LocalLedger(kit.campaign())
    predictor, registry = build(ledger=ledger)
    first = predictor.answer(customers("c1"))
    nobody_is_eligible()
    ledger.messages.clear()
    again = predictor.answer(customers("c1", "c2", "c2"))
    assert decided(again) == decided(first)
    assert (again.reason[1:], again.level[1:].tolist()) == (["ineligible"] * 2, [-1, -1])
    assert again.repeat.tolist() == [True, False, False]
    assert len(ledger.messages) == 1
    assert ledger.recorded() == ["r0"]
    labels = {"campaign": "spring", "side": "customer", "reason": "ineligible"}
    assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == 2
    with pytest.raises(Conflict, match="'r0'"):
        predictor.answer(customers("c9"))


def test_without_the_ledger_nobody_ineligible_is_answered_unless_that_is_configured(build, nobody_is_eligible):
    nobody_is_eligible()
    with pytest.raises(Unavailable, match="without authorization"):
        build(ledger=NoLedger())[0].answer(customers("c1"))
    answers = build(ledger=NoLedger(), authorization_required=False)[0].answer(customers("c1"))
    assert (answers.reason, answers.level.tolist(), answers.degraded) == (["ineligible"], [-1], True)
