"""Funds in the tables: numbered, without a face value, apart from incentives; actions refer to what there is."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidTable
from shadowprice.tables import Tables, campaign_from_tables, labeled, offer_features, validate_tables

Frames = dict[str, pd.DataFrame]
FUNDS = 2


@pytest.fixture
def frames() -> Frames:
    at = pd.Timestamp("2026-03-01", tz="UTC")
    accounts = ["u0", "u1", "u2"]
    offers = [f"fund-{j}" for j in range(FUNDS)]
    return {
        "account": pd.DataFrame({"account_id": accounts, "side": "customer", "snapshot_ts": at, "risk_tolerance": 1}),
        "edge": pd.DataFrame({"src": [], "dst": [], "relation": [], "weight": [], "ts": pd.to_datetime([], utc=True)}),
        "offer": pd.DataFrame(
            {
                "offer_id": offers[::-1],
                "side": "customer",
                "kind": "fund",
                "face_value": 0,
                "order_index": [1, 0],
                "risk_level": [2, 1],
                "demand": [1, 2],
            }
        ),
        "exposure": pd.DataFrame(
            {
                "request_id": ["a", "b", "c"],
                "account_id": accounts,
                "side": "customer",
                "offer_id": ["fund-1", "fund-0", "fund-1"],
                "decided_at": at,
                "propensity": 0.5,
            }
        ),
        "outcome": pd.DataFrame(
            {
                "request_id": ["a", "b", "c"],
                "observed_at": at,
                "mature": True,
                "cost_paid": 0,
                "redeemed": [1, 0, 0],
                "clicked": [1, 1, 0],
                "amount": [12_345, 0, 0],
            }
        ),
        "campaign": pd.DataFrame(
            [
                {
                    "campaign_id": "funds",
                    "starts_at": at,
                    "hours": 1,
                    "budget_name": "none",
                    "budget_form": "total",
                    "budget_limit": 0.0,
                    "cost_basis_customer": "on_grant",
                }
            ]
        ),
        "action": pd.DataFrame({"account_id": ["u0"], "offer_id": ["fund-1"], "action": ["click"], "ts": [at]}),
    }


def test_the_level_of_a_fund_is_its_number(frames: Frames) -> None:
    tables = validate_tables(frames)
    rows = labeled(tables, "customer")
    assert rows["level"].tolist() == [1, 0, 1]
    assert rows["amount"].tolist() == [12_345, 0, 0]
    assert rows["clicked"].tolist() == [1, 1, 0]
    assert campaign_from_tables(tables).terms("customer").levels == (0, 1)


def test_features_of_funds_come_in_the_order_of_their_numbers(frames: Frames) -> None:
    assert offer_features(validate_tables(frames), "customer") is None
    frames["offer"] = frames["offer"].assign(x_return=[0.08, 0.02], x_fee=[np.nan, np.nan])
    found = offer_features(validate_tables(frames), "customer")
    assert found is not None
    assert found[["level", "x_return"]].to_numpy().tolist() == [[0, 0.02], [1, 0.08]]
    assert set(found) == {"level", "x_return"}


def test_the_fee_of_a_fund_is_the_share_of_its_value_that_counts(frames: Frames) -> None:
    frames["offer"] = frames["offer"].assign(fee=[np.nan, 0.02])
    terms = campaign_from_tables(validate_tables(frames)).terms("customer")
    assert [each.fee for each in terms.segments] == [0.02, 1.0]
    np.testing.assert_allclose(terms.value(np.full((2, 3), 50.0)), [[1.0] * 3, [50.0] * 3])


def test_actions_may_be_left_out(frames: Frames) -> None:
    del frames["action"]
    tables = validate_tables(frames)
    assert tables.action is None
    assert "action" not in tables.as_dict()
    assert isinstance(tables, Tables)


def put(table: str, **columns: object) -> Callable[[Frames], None]:
    def change(frames: Frames) -> None:
        frames[table] = frames[table].assign(**columns)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("offer", order_index=[1, 1]), r"offer.order_index: must number the funds.*row 1"),
        (put("offer", order_index=[1, 2]), r"offer.order_index: must number the funds.*row 1"),
        (put("offer", order_index=[None, 0]), r"offer.order_index: must number the funds.*row 0"),
        (put("offer", kind=["fund", "coupon"]), r"offer.kind: must be 'fund'.*row 1"),
        (put("offer", face_value=[0, 5]), r"offer.face_value: must be 0.*row 1"),
        (put("offer", x_return=[0.1, np.inf]), r"offer.x_return: must be finite.*row 1"),
        (put("offer", x_return=["high", "low"]), r"offer.x_return: is not a number.*first: 0"),
        (put("offer", yearly_return=[0.1, 0.2]), r"offer.yearly_return"),
        (
            put("offer", kind="coupon", face_value=[1, 2], x_return=0.1),
            r"offer.x_return: must be empty: only the features",
        ),
        (put("offer", fee=[-0.1, 0.02]), r"offer.fee: must be a finite amount, not negative.*row 0"),
        (put("offer", kind="coupon", face_value=[1, 2], fee=0.02), r"offer.fee: must be empty: only a fund has a fee"),
        (put("offer", demand=[-1, 2]), r"offer.demand: must be at least 0.*row 0"),
        (put("outcome", amount=[12_345, 0, -1]), r"outcome.amount: must be at least 0.*row 2"),
        (put("outcome", amount=[12_345, 5, 0]), r"outcome.amount: must be above 0 exactly where a fund.*row 1"),
        (put("outcome", amount=[0, 0, 0]), r"outcome.amount: must be above 0 exactly where a fund.*row 0"),
        (put("outcome", clicked=[0, 1, 0]), r"outcome.clicked: must be 1 where a fund was bought.*row 0"),
        (put("action", account_id="nobody"), r"action.account_id: is not in the account table.*row 0"),
        (put("action", offer_id="gold"), r"action.offer_id: is not in the offer table.*row 0"),
        (put("action", action="stare"), r"action.action: must be one of click.*row 0"),
    ],
)
def test_what_cannot_be_is_refused(frames: Frames, change: Callable[[Frames], None], message: str) -> None:
    change(frames)
    with pytest.raises(InvalidTable, match=message):
        validate_tables(frames)


def test_funds_without_numbers_are_refused(frames: Frames) -> None:
    frames["offer"] = frames["offer"].drop(columns="order_index")
    with pytest.raises(InvalidTable, match=r"offer.order_index: is missing"):
        validate_tables(frames)
