"""Offers in percent in the canonical tables, and the amounts that outcomes tell."""

from typing import Any

import pandas as pd
import pytest

from shadowprice.campaign import Percent
from shadowprice.errors import InvalidTable
from shadowprice.tables import Tables, campaign_from_tables, labeled, validate_tables

Frames = dict[str, pd.DataFrame]
ROWS = [("none", 0, None, None), ("ten", 500, 10.0, None), ("twenty", 1000, 20.0, 3000), ("five", 500, None, None)]


def with_percent(frames: Frames, rows: list[tuple[Any, ...]] = ROWS, **campaign: Any) -> Frames:
    """Offer customers percentages: identifier, cap, percent and least spend of each; exposures have them in turn."""
    names, caps, shares, least = zip(*rows, strict=True)
    offer = pd.DataFrame({"offer_id": names, "face_value": caps, "percent": shares, "min_spend": least})
    merchants = frames["offer"][frames["offer"]["side"] == "merchant"]
    offer = pd.DataFrame(
        [
            *merchants.to_dict("records"),
            *offer.assign(side="customer", kind="coupon").astype(object).to_dict("records"),
        ],
        dtype=object,
    )
    exposure, outcome = frames["exposure"].copy(), frames["outcome"].copy()
    mine = exposure["side"] == "customer"
    exposure.loc[mine, "offer_id"] = [names[place % len(names)] for place in range(int(mine.sum()))]
    own = outcome["request_id"].isin(exposure.loc[mine, "request_id"])
    outcome.loc[own, ["cost_paid", "redeemed"]] = 0
    return {
        **frames,
        "offer": offer,
        "exposure": exposure,
        "outcome": outcome,
        "campaign": frames["campaign"].assign(**campaign),
    }


def redeemed(frames: Frames, offer: str, paid: list[int], amount: list[int | None]) -> Tables:
    """Let the first requests of an offer be redeemed at these payments and amounts."""
    given = with_percent(frames)
    names = given["exposure"].loc[given["exposure"]["offer_id"] == offer, "request_id"].tolist()[: len(paid)]
    outcome = given["outcome"].astype({"redeemed": "Int64", "cost_paid": "Int64"}).set_index("request_id")
    outcome["amount"] = pd.array([pd.NA] * len(outcome), dtype="Int64")
    outcome.loc[names, "mature"], outcome.loc[names, "redeemed"] = True, 1
    outcome.loc[names, "cost_paid"] = pd.array(paid, dtype="Int64")
    outcome.loc[names, "amount"] = pd.array(amount, dtype="Int64")
    outcome = outcome.reset_index()
    return validate_tables({**given, "outcome": outcome})


def faults(frames: Frames) -> dict[str, str]:
    with pytest.raises(InvalidTable) as caught:
        validate_tables(frames)
    return {str(problem.field): problem.reason for problem in caught.value.problems}


def test_offers_in_percent_are_levels_whose_amounts_are_their_caps(frames: Frames) -> None:
    terms = campaign_from_tables(validate_tables(with_percent(frames))).terms("customer")
    assert terms.offers == ("none", "five", "ten", "twenty")
    assert terms.unit_costs == terms.reserved == (0, 500, 500, 1000)
    assert terms.percent == (None, None, Percent(share=10.0), Percent(share=20.0, least=3000))
    assert not terms.ordered
    ordered = with_percent(frames, ROWS[:3], ordered_customer=True)
    ordered["offer"] = ordered["offer"].assign(order_index=[None] * (len(ordered["offer"]) - 3) + [0, 1, 2])
    ordered["offer"].loc[ordered["offer"]["offer_id"] == "twenty", "min_spend"] = 0
    terms = campaign_from_tables(validate_tables(ordered)).terms("customer")
    assert (terms.ordered, terms.offers) == (True, ("none", "ten", "twenty"))


def test_an_offer_in_percent_needs_a_cap_and_a_payment_within_it(frames: Frames) -> None:
    capless = faults(with_percent(frames, [*ROWS, ("free", None, 5.0, None)]))
    assert "its cap" in capless["offer.face_value"]
    assert "above 0 and at most 100" in faults(with_percent(frames, [*ROWS, ("odd", 5, 120.0, None)]))["offer.percent"]
    granted = faults(with_percent(frames, cost_basis_customer="on_grant"))
    assert "paid on grant" in granted["offer.percent"]
    costly = with_percent(frames)
    costly["offer"] = costly["offer"].assign(cost=[None] * (len(costly["offer"]) - 1) + [100])
    costly["offer"].loc[costly["offer"]["offer_id"] == "twenty", "cost"] = 800
    assert "a part of the order" in faults(costly)["offer.cost"]
    paid = with_percent(frames)
    first = paid["exposure"].loc[paid["exposure"]["offer_id"] == "ten", "request_id"].iloc[0]
    assert (paid["outcome"]["request_id"] == first).any()
    paid["outcome"].loc[paid["outcome"]["request_id"] == first, "cost_paid"] = 501
    assert "above the cap" in faults(paid)["outcome.cost_paid"]


def test_an_order_after_its_discount_is_refused(frames: Frames) -> None:
    redeemed(frames, "twenty", [800, 0], [4000, 2000])
    # 20 % of what remains of an order of 4000 is less than what was paid; and 2900 is below the least spend.
    for paid, amount in ((800, 3200), (580, 2900)):
        with pytest.raises(InvalidTable, match="before the discount"):
            redeemed(frames, "twenty", [paid], [amount])


def test_what_was_paid_tells_an_amount_that_is_not_logged(frames: Frames) -> None:
    rows = labeled(redeemed(frames, "twenty", [648, 1000], [None, None]), "customer")
    own = rows[(rows["level"] == 3) & (rows["response"] == 1)]
    assert own["paid"].tolist() == [648, 1000]
    assert own["amount"].fillna(-1).tolist() == [3240, -1]
    # Of which the second is at least that of the cap.
    assert own["amount_least"].fillna(-1).tolist() == [-1, 5000]
    assert own["amount_most"].isna().all()
    rows = labeled(redeemed(frames, "twenty", [0, 1000], [None, 8800]), "customer")
    own = rows[(rows["level"] == 3) & (rows["response"] == 1)]
    assert own["amount"].fillna(-1).tolist() == [-1, 8800]
    assert own["amount_most"].fillna(-1).tolist() == [3000, -1]
    assert own["amount_least"].isna().all()


def test_a_side_without_percentages_has_the_columns_that_it_always_had(sound_tables: Tables) -> None:
    assert {"paid", "amount", "amount_least", "amount_most"}.isdisjoint(labeled(sound_tables, "customer").columns)
