"""Calls that are answered together, and apart where the ledger does not take them together."""

from dataclasses import replace

import numpy as np
import pytest
from local_ledger import LocalLedger, NoLedger, TableReader, customers

from serving.protocol import OUTPUTS, Requests
from shadowprice.errors import Conflict, InvalidInput, InvalidRequest, Unavailable


class StrictLedger(LocalLedger):
    """Takes no message with more than ``most`` letters x, and refuses the request ids ``wrong`` with 422."""

    def __init__(self, campaign, most, wrong=()):
        super().__init__(campaign)
        self.most, self.wrong = most, wrong

    async def authorize(self, proposals, known, *, sizes, **versions):
        names = [*proposals.request_id, *known.request_id]
        if sum(name.count("x") for name in names) > self.most:
            raise InvalidRequest("too much")
        if set(names).intersection(self.wrong):
            error = InvalidRequest("other terms")
            error.status = 422
            raise error
        return await super().authorize(proposals, known, sizes=sizes, **versions)


@pytest.mark.parametrize("misfit", [{}, {"x_basket": [1.0]}], ids=["proposed", "looked up"])
def test_calls_that_the_ledger_does_not_take_together_are_answered_apart(build, kit, misfit):
    terms = kit.campaign()
    alone = build(terms=terms)[0]
    ledger = StrictLedger(terms, most=3)
    asked, _ = build(terms=terms, ledger=ledger)
    names = ["xx-a", "xx-b", "c", "xxxx", "xxx-d", "e"]
    calls = [Requests([name, f"{name}2"[-2:]], ["c1", "c2"], ["customer"] * 2) for name in names]
    answers = asked.answer_all(calls)
    assert [isinstance(each, InvalidRequest) for each in answers] == [name == "xxxx" for name in names]
    for call, answer in zip(calls, answers, strict=True):
        if call.request_id[0] != "xxxx":
            assert list(answer.level) == list(alone.answer(call).level)
    # The same calls again, some of whose requests are only looked up.
    lone = [replace(call, context={name: [*column, 1.0] for name, column in misfit.items()}) for call in calls]
    again = asked.answer_all([lone[0], calls[1], lone[2], calls[3], calls[4], lone[5]])
    assert [not isinstance(each, InvalidRequest) and each.repeat.all() for each in again] == [
        name != "xxxx" for name in names
    ]


def test_a_call_that_the_ledger_cannot_read_is_unavailable_alone(build, kit):
    terms = kit.campaign()
    calls = [customers("c1", "c2", prefix=prefix) for prefix in "abc"]
    answers = build(ledger=StrictLedger(terms, 0, ["b1"]))[0].answer_all(calls)
    assert [type(each) is Unavailable for each in answers] == [False, True, False]
    predictor, _ = build(ledger=StrictLedger(terms, 0, ["b1"]), authorization_required=False)
    assert [each.degraded for each in predictor.answer_all(calls)] == [True] * 3


def test_calls_answered_together_are_answered_as_each_alone(build, kit):
    terms = kit.campaign()
    calls = [
        customers("c1", "c2", prefix="a"),
        Requests(["m"], ["m3"], ["merchant"]),
        customers("nobody", "c1", "c9", prefix="b"),
    ]
    together, registry = build(terms=terms, ledger=LocalLedger(terms))
    for call, found in zip(calls, together.answer_all(calls), strict=True):
        alone = build(terms=terms, ledger=LocalLedger(terms))[0].answer(call)
        for name in OUTPUTS:
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    stages = {"campaign": "spring", "stage": "authorize"}
    assert registry.get_sample_value("shadowprice_decision_seconds_count", stages) == 1


def test_of_calls_answered_together_only_those_at_fault_are_refused(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    predictor, _ = build(ledger=ledger)
    first, theft, other = predictor.answer_all(
        [Requests(["r"], ["c1"], ["customer"]), Requests(["r"], ["c2"], ["customer"]), customers("c3")]
    )
    assert isinstance(theft, Conflict)
    assert (first.reason, other.reason) == (["optimal"], ["optimal"])
    again, beside = predictor.answer_all([Requests(["r"], ["c1"], ["customer"]), customers("c4", prefix="q")])
    assert (again.reason, again.repeat.tolist()) == (["optimal"], [True])
    assert again.level == first.level
    assert (beside.reason, beside.repeat.tolist()) == (["optimal"], [False])


def test_calls_in_conflict_are_refused_alone_and_cost_the_others_no_message(build, kit):
    """Were the others answered one by one, one caller with a reused id would slow all of them down."""
    terms = kit.campaign(sides={"customer": kit.campaign().sides["customer"]})
    ledger, reader = LocalLedger(terms), TableReader(kit.embeddings())
    predictor, _ = build(terms=terms, ledger=ledger, reader=reader)
    predictor.answer(Requests(["taken"], ["c1"], ["customer"]))
    ledger.messages.clear()
    reader.reads.clear()
    good = [customers(f"c{number}", prefix=f"good-{number}-") for number in range(12)]
    hostile = [
        Requests(["taken"], ["c2"], ["customer"]),
        Requests(["mine", "good-0-0"], ["c3", "c3"], ["customer"] * 2),
        Requests(["same", "same"], ["c4", "c5"], ["customer"] * 2),
        Requests(["unknown-side"], ["m1"], ["merchant"]),
    ]
    mixed = [*good[:3], hostile[0], *good[3:6], hostile[1], *good[6:9], hostile[2], *good[9:], hostile[3]]
    found = predictor.answer_all(mixed)
    for call, answer in zip(mixed, found, strict=True):
        if call in hostile:
            assert isinstance(answer, InvalidInput if call is hostile[3] else Conflict)
        else:
            assert (answer.reason, answer.repeat.tolist()) == (["optimal"], [False])
    assert len(ledger.messages) == len(reader.reads) == 1
    assert ledger.recorded() == ["taken", *(call.request_id[0] for call in good)]


def test_a_batch_of_refused_calls_alone_asks_nobody(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    same = Requests(["r", "r"], ["c1", "c2"], ["customer"] * 2)
    found = build(ledger=ledger)[0].answer_all([same, same])
    assert [type(each) for each in found] == [Conflict] * 2
    assert ledger.messages == []


def test_one_request_in_two_calls_at_once_is_authorized_once(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    same = Requests(["r"], ["c1"], ["customer"])
    one, two = build(ledger=ledger)[0].answer_all([same, same])
    assert (one.repeat.tolist(), two.repeat.tolist()) == ([False], [True])
    assert (one.level, one.reason) == (two.level, two.reason)
    assert ledger.recorded() == ["r"]


def test_a_ledger_that_is_away_is_asked_once_for_calls_answered_together(build):
    class Counting(NoLedger):
        asked = 0

        async def authorize(self, *asked, **options):
            self.asked += 1
            return await super().authorize(*asked, **options)

    ledger = Counting()
    found = build(ledger=ledger)[0].answer_all([customers("c1", prefix=name) for name in "abc"])
    assert [type(each) for each in found] == [Unavailable] * 3
    assert ledger.asked == 1
