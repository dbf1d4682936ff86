"""Requests outside the campaign's window."""

from datetime import timedelta

import pytest
from local_ledger import LocalLedger, TableReader, customers, decided

from serving.protocol import Requests
from shadowprice.campaign import Segment, Terms
from shadowprice.errors import Conflict

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("edge", ["starts_at", "ends_at"])
def test_outside_the_window_nothing_is_paid_and_nothing_is_recorded(build, kit, edge):
    terms = kit.campaign()
    ledger, reader = LocalLedger(terms), TableReader(kit.embeddings())
    time = [terms.starts_at]
    predictor, registry = build(
        terms=terms, ledger=ledger, reader=reader, price=kit.price(price=0.0), window=True, clock=lambda: time[0]
    )
    inside, outside = (
        (terms.starts_at, terms.starts_at - SECOND) if edge == "starts_at" else (terms.ends_at - SECOND, terms.ends_at)
    )
    both = ["customer", "merchant"]
    time[0] = outside
    early = predictor.answer(Requests(["a", "b"], ["c1", "m1"], both))
    assert early.reason == ["outside_window"] * 2
    # A customer may be given nothing, which is a level; a merchant is always paid.
    assert (early.level.tolist(), early.incentive.tolist()) == ([0, -1], [0, 0])
    assert (early.expected_cost.tolist(), early.propensity.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    assert (early.repeat.tolist(), early.degraded) == ([False, False], False)
    assert ledger.recorded() == reader.reads == []
    time[0] = inside
    first = predictor.answer(Requests(["c", "d"], ["c1", "m1"], both))
    assert (first.reason, first.incentive.tolist()) == (["optimal"] * 2, [130, 100])
    time[0] = outside
    again = predictor.answer(Requests(["c", "e"], ["c1", "m1"], both))
    assert (decided(again), again.repeat.tolist()) == (decided(first), [True, False])
    assert again.reason == ["optimal", "outside_window"]
    with pytest.raises(Conflict, match="'d'"):
        predictor.answer(Requests(["d"], ["m2"], ["merchant"]))
    assert ledger.recorded() == ["c", "d"]
    for side, count in (("customer", 1), ("merchant", 2)):
        labels = {"campaign": "spring", "side": side, "reason": "outside_window"}
        assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == count


def test_outside_the_window_no_seat_of_a_delivery_is_given(build, kit):
    funds = Terms(levels=(0, 1), segments=(Segment(name="calm", demand=1), Segment(name="bold", demand=1)))
    terms = kit.campaign(sides={"customer": funds})
    answers = build(terms=terms, window=True)[0].answer(customers("c1"))
    assert (answers.reason, answers.level.tolist(), answers.incentive.tolist()) == (["outside_window"], [-1], [0])


def test_a_window_that_is_off_decides_at_any_time(build, kit):
    for time in (kit.campaign().starts_at - SECOND, kit.campaign().ends_at):
        answers = build(window=False, clock=lambda time=time: time)[0].answer(customers("c1"))
        assert answers.reason == ["optimal"]
