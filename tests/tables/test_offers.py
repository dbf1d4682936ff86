"""Order and costs of the levels of a side, from the offer table."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.tables import Tables, campaign_from_tables, labeled, validate_tables
from shadowprice.tables.offers import offers_of

Frames = dict[str, pd.DataFrame]
EMAILS = [("No E-Mail", None, 0), ("Womens E-Mail", None, 1), ("Mens E-Mail", None, 1)]


def with_offers(frames: Frames, rows: list[tuple[Any, ...]], ordered: object = None, **more: list[Any]) -> Frames:
    """Give the customers other offers: identifier, face value and cost of each; exposures name them in turn."""
    names, amounts, costs = zip(*rows, strict=True)
    offer = pd.DataFrame({"offer_id": names, "side": "customer", "kind": "other", "face_value": amounts, "cost": costs})
    merchants = frames["offer"][frames["offer"]["side"] == "merchant"]
    exposure, campaign = frames["exposure"].copy(), frames["campaign"].assign(ordered_customer=ordered)
    mine = exposure["side"] == "customer"
    exposure.loc[mine, "offer_id"] = list(itertools.islice(itertools.cycle(names), int(mine.sum())))
    rows_of = [*merchants.to_dict("records"), *offer.assign(**more).astype(object).to_dict("records")]
    offer = pd.DataFrame(rows_of, dtype=object)
    return {**frames, "offer": offer, "exposure": exposure, "campaign": campaign}


def made(frames: Frames, rows: list[tuple[Any, ...]], ordered: object = None, **more: list[Any]) -> Tables:
    return validate_tables(with_offers(frames, rows, ordered, **more))


def faults(frames: Frames, rows: list[tuple[Any, ...]], ordered: object = None, **more: list[Any]) -> dict[str, str]:
    with pytest.raises(InvalidTable) as caught:
        made(frames, rows, ordered, **more)
    return {str(problem.field): problem.reason for problem in caught.value.problems}


def test_amounts_that_differ_are_levels_as_they_always_were(frames: Frames) -> None:
    terms = campaign_from_tables(validate_tables(frames)).terms("customer")
    assert (terms.levels, terms.incentives, terms.unit_costs) == ((50, 100, 200),) * 3
    assert terms.to_dict() == {
        "levels": [50, 100, 200],
        "cost_basis": "on_response",
        "weight": 1.0,
        "offers": ["coupon-50", "coupon-100", "coupon-200"],
    }


def test_offers_without_an_amount_have_no_order_and_the_control_is_first(frames: Frames) -> None:
    terms = campaign_from_tables(made(frames, EMAILS[::-1])).terms("customer")
    assert terms.offers == ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
    assert not terms.ordered
    assert (terms.levels, terms.incentives, terms.unit_costs) == ((0, 1, 2), (0, 0, 0), (0, 1, 1))
    np.testing.assert_array_equal(terms.cost(np.full((3, 2), 0.5)), [[0, 0], [0.5, 0.5], [0.5, 0.5]])


def test_the_level_of_a_row_is_that_of_its_offer_whatever_the_offers_cost(frames: Frames) -> None:
    tables = made(frames, [("c", None, 5), ("b", None, 0), ("a", None, 5)])
    rows = labeled(tables, "customer")
    given = rows["request_id"].map(tables.exposure.set_index("request_id")["offer_id"])
    assert given.map({"b": 0, "a": 1, "c": 2}).tolist() == rows["level"].tolist()
    assert (rows["face_value"] == 0).all()


@pytest.mark.parametrize(
    ("rows", "ordered", "more", "order", "ids", "amounts", "costs"),
    [
        ([("x", 50, None), ("y", 50, None), ("z", 0, None)], None, {}, "none", "zxy", (0, 50, 50), (0, 50, 50)),
        ([("x", 50, 30), ("y", 20, None)], None, {}, "face_value", "yx", (20, 50), (20, 30)),
        ([("x", 50, None), ("y", 20, None)], False, {}, "none", "yx", (20, 50), (20, 50)),
        ([("x", 50, None), ("y", 20, None)], True, {}, "face_value", "yx", (20, 50), (20, 50)),
        ([("3:1", None, 60), ("0", None, 0), ("1:1", None, 20)], True, {"order_index": [3, 0, 1]}, "order_index",
         ["0", "1:1", "3:1"], (0, 0, 0), (0, 20, 60)),
        ([("b", None, 1), ("a", None, 1)], None, {"order_index": [0, None]}, "none", "ba", (0, 0), (1, 1)),
        # A control may cost more than another offer.
        ([("mail", None, 2), ("letter", None, 80)], None, {"order_index": [1, 0]}, "none", ["letter", "mail"], (0, 0),
         (80, 2)),
    ],
)  # fmt: skip
def test_the_order_comes_from_amounts_or_numbers_or_there_is_none(
    frames: Frames, rows: Any, ordered: object, more: Any, order: str, ids: Any, amounts: Any, costs: Any
) -> None:
    found = offers_of(made(frames, rows, ordered, **more), "customer")
    assert (found.order, found.ids, found.amounts, found.costs) == (order, tuple(ids), amounts, costs)


def test_a_side_that_is_none_has_no_offers(frames: Frames) -> None:
    with pytest.raises(InvalidInput, match="side"):
        offers_of(validate_tables(frames), "nobody")  # type: ignore[arg-type]


def test_several_cheapest_offers_need_a_control(frames: Frames) -> None:
    told = faults(frames, [("a", None, 0), ("b", None, 0), ("c", None, 1)])
    assert told.keys() == {"offer.order_index"}
    assert "must be 0 for the control" in told["offer.order_index"]
    assert "stands twice" in faults(frames, EMAILS, order_index=[0, 0, 1])["offer.order_index"]


def test_an_order_that_nothing_tells_is_refused(frames: Frames) -> None:
    twice = [("x", 50, None), ("y", 50, None)]
    assert "do not tell how" in faults(frames, twice, True)["offer.order_index"]
    assert "do not tell how" in faults(frames, twice, True, order_index=[0, 0])["offer.order_index"]


def test_an_offer_needs_an_amount_or_a_cost_and_one_fault_is_reported_once(frames: Frames) -> None:
    told = faults(frames, [("a", None, 0), ("b", None, None)])
    assert told == {"offer.face_value": "is missing; give the amount, or a cost where the offer has no value in money"}
    assert faults(frames, [("a", None, 0), ("b", None, "much")]).keys() == {"offer.cost"}


def test_nothing_is_paid_for_a_fund(frames: Frames) -> None:
    funds = faults(frames, [("a", None, 0), ("b", 0, 7)], kind=["fund", "fund"], order_index=[0, 1])
    assert funds == {"offer.cost": "must be 0: nothing is paid for a fund; got '7'"}
