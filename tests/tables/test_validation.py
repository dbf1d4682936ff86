import gc
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign.long_term import LongTerm
from shadowprice.errors import InvalidTable, TableProblem
from shadowprice.tables import TABLES, campaign_from_tables, labeled, validate_some, validate_tables

Frames = dict[str, pd.DataFrame]


def refusal(frames: Frames) -> InvalidTable:
    with pytest.raises(InvalidTable) as caught:
        validate_tables(frames)
    return caught.value


def problems_of(frames: Frames) -> tuple[TableProblem, ...]:
    return refusal(frames).problems


def in_parts(frames: Frames) -> dict[str, list[pd.DataFrame]]:
    """Every table in three parts."""
    parts = {}
    for name, frame in frames.items():
        rows = max(-(-len(frame) // 3), 1)
        parts[name] = [frame.iloc[at : at + rows] for at in range(0, len(frame), rows)]
    return parts


def put(table: str, column: str, cells: dict[int, object]) -> Callable[[Frames], None]:
    """A fault: cells of one column replaced."""

    def fault(frames: Frames) -> None:
        values = frames[table][column].astype(object)
        for row, cell in cells.items():
            values.iloc[row] = cell
        frames[table][column] = values

    return fault


def test_sound_tables_come_back_as_they_are(frames: Frames) -> None:
    tables = validate_tables(frames)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(tables, name), frames[name])


def test_a_second_validation_changes_nothing(frames: Frames) -> None:
    once = validate_tables(frames).as_dict()
    twice = validate_tables(once).as_dict()
    for name in TABLES:
        pd.testing.assert_frame_equal(once[name], twice[name])


def test_the_input_is_not_changed(frames: Frames) -> None:
    before = {name: frame.copy() for name, frame in frames.items()}
    validate_tables(frames)
    for name in TABLES:
        pd.testing.assert_frame_equal(frames[name], before[name])


FAULTS = [
    (put("account", "account_id", {2: None}), "account.account_id", (2,), "must not be empty"),
    (put("account", "account_id", {2: "", 4: ""}), "account.account_id", (2, 4), "must not be empty"),
    (put("account", "account_id", {3: 7}), "account.account_id", (3,), "must be text"),
    (put("account", "side", {1: "buyer"}), "account.side", (1,), "must be one of customer, merchant"),
    (put("account", "x_visits_per_week", {0: "many"}), "account.x_visits_per_week", (0,), "is not a number"),
    (put("account", "x_visits_per_week", {5: np.inf}), "account.x_visits_per_week", (5,), "must be finite"),
    (put("account", "c_city", {5: 1.5}), "account.c_city", (5,), "must be text"),
    (put("account", "snapshot_ts", {4: "2026-03-02 00:00:00"}), "account.snapshot_ts", (4,), "has no time zone"),
    (put("account", "snapshot_ts", {4: "soon"}), "account.snapshot_ts", (4,), "is not a time"),
    (put("edge", "src", {9: "nobody"}), "edge.src", (9,), "is not a customer of the account table"),
    (put("edge", "src", {9: "shop-10"}), "edge.src", (9,), "is not a customer of the account table"),
    (put("edge", "dst", {9: "p01"}), "edge.dst", (9,), "is not a merchant of the account table"),
    (put("edge", "weight", {3: 0, 1: -1}), "edge.weight", (1, 3), "above 0"),
    (put("edge", "relation", {3: "likes"}), "edge.relation", (3,), "must be one of paid_at"),
    (put("offer", "face_value", {1: None}), "offer.face_value", (1,), "is missing; give the amount, or a cost"),
    (put("offer", "face_value", {1: 0.5}), "offer.face_value", (1,), "minor units"),
    (put("offer", "face_value", {1: -50}), "offer.face_value", (1,), "at least 0"),
    (put("offer", "face_value", {1: 2**60 + 0.0}), "offer.face_value", (1,), "must not exceed"),
    (put("offer", "kind", {1: "gift"}), "offer.kind", (1,), "must be one of coupon"),
    (put("exposure", "request_id", {7: "r0001"}), "exposure.request_id", (7,), "must be unique"),
    (put("exposure", "account_id", {0: "p01"}), "exposure.account_id", (0,), "is not a merchant"),
    (put("exposure", "partner_id", {1: "p01"}), "exposure.partner_id", (1,), "is not a merchant"),
    (put("exposure", "offer_id", {1: "coupon-7"}), "exposure.offer_id", (1,), "is not in the offer table"),
    (
        put("exposure", "offer_id", {1: "commission-20"}),
        "exposure.offer_id",
        (1,),
        "is an offer for the other side",
    ),
    (put("exposure", "propensity", {1: 0.0, 2: 1.01}), "exposure.propensity", (1, 2), "probability"),
    (put("exposure", "propensity", {1: None}), "exposure.propensity", (1,), "must not be empty"),
    (put("exposure", "exploration", {1: "perhaps"}), "exposure.exploration", (1,), "must be true or false"),
    (put("exposure", "price_version", {1: "two"}), "exposure.price_version", (1,), "is not a whole number"),
    (put("outcome", "request_id", {3: "r9999"}), "outcome.request_id", (3,), "is not in the exposure table"),
    (put("outcome", "request_id", {3: "r0001"}), "outcome.request_id", (3,), "must be unique"),
    (
        put("outcome", "observed_at", {3: "2026-03-01T00:00:00Z"}),
        "outcome.observed_at",
        (3,),
        "is before the exposure's decided_at",
    ),
    (put("outcome", "redeemed", {1: None}), "outcome.redeemed", (1,), "a mature outcome of a customer needs it"),
    (put("outcome", "redeemed", {1: 2}), "outcome.redeemed", (1,), "must be 0 or 1"),
    (put("outcome", "share_count", {0: None}), "outcome.share_count", (0,), "of a merchant needs it"),
    (put("outcome", "share_count_before", {0: -1}), "outcome.share_count_before", (0,), "at least 0"),
    (put("outcome", "cost_paid", {0: "1e99"}), "outcome.cost_paid", (0,), "must not exceed"),
    (put("campaign", "campaign_id", {0: "spring sale"}), "campaign.campaign_id", (0,), "letters, digits"),
    (put("campaign", "hours", {0: 0}), "campaign.hours", (0,), "must be 1 to"),
    (put("campaign", "budget_limit", {0: 0.5}), "campaign.budget_limit", (0,), "whole number of minor units"),
    (put("campaign", "budget_limit", {0: -1}), "campaign.budget_limit", (0,), "not negative"),
    (put("campaign", "budget_form", {0: "weekly"}), "campaign.budget_form", (0,), "must be one of total"),
    (put("campaign", "weight_merchant", {0: 0}), "campaign.weight_merchant", (0,), "above 0"),
    (put("campaign", "objective", {0: "profit"}), "campaign.objective", (0,), "must be one of responses"),
    (put("campaign", "objective", {0: "margin"}), "campaign.worth_customer", (), "or give weight_customer in minor"),
    (put("campaign", "worth_customer", {0: "x_margin"}), "campaign.worth_customer", (), "does not have"),
    (put("campaign", "worth_customer", {0: "margin"}), "campaign.worth_customer", (0,), "x_"),
    (put("campaign", "expected_requests", {0: 0}), "campaign.expected_requests", (0,), "at least 1"),
    (put("campaign", "most_response_merchant", {0: 0.0}), "campaign.most_response_merchant", (0,), "above 0"),
    (put("campaign", "most_units_merchant", {0: 0}), "campaign.most_units_merchant", (0,), "at least 1"),
    (put("campaign", "most_units_merchant", {0: 2}), "campaign.most_units_merchant", (0,), "is on_response"),
    (put("campaign", "cost_basis_merchant", {0: None}), "campaign.cost_basis_merchant", (), "is missing"),
]


@pytest.mark.parametrize(("fault", "field", "rows", "reason"), FAULTS)
def test_a_bad_cell_is_named_with_its_row_and_reason(
    frames: Frames, fault: Callable[[Frames], None], field: str, rows: tuple[int, ...], reason: str
) -> None:
    fault(frames)
    found = problems_of(frames)
    matching = [problem for problem in found if problem.field == field and reason in problem.reason]
    assert [problem.rows for problem in matching] == [rows]
    assert matching[0].count == len(rows)


def test_amounts_that_are_the_worth_are_checked_by_row(frames: Frames) -> None:
    put("campaign", "worth_customer", {0: "amount"})(frames)
    put("campaign", "weight_merchant", {0: 100.0})(frames)
    put("campaign", "objective", {0: "value"})(frames)
    outcome = frames["outcome"]
    assert [problem.field for problem in problems_of(frames)] == ["outcome.amount"]
    redeemed = outcome["redeemed"].astype("Int64")
    outcome["amount"] = (5000 * redeemed).astype("Int64")
    rows = labeled(validate_tables(frames), "customer")
    assert rows["amount"].tolist() == (5000.0 * rows["response"]).tolist()
    hit, miss = (int(outcome.index[redeemed.eq(y).fillna(False)][0]) for y in (1, 0))
    put("outcome", "amount", {hit: 0, miss: 700})(frames)
    assert [(found.field, found.rows) for found in problems_of(frames)] == [
        ("outcome.amount", (hit,)),
        ("outcome.amount", (miss,)),
    ]
    for cell, reason in ((-1, "at least 0"), (np.inf, "must not exceed"), (None, "above 0")):
        put("outcome", "amount", {hit: cell, miss: None})(frames)
        [found] = problems_of(frames)
        assert (found.field, found.rows) == ("outcome.amount", (hit,))
        assert reason in found.reason


def test_amounts_of_merchants_are_checked_by_row_and_labeled_by_unit(frames: Frames) -> None:
    put("campaign", "worth_merchant", {0: "amount"})(frames)
    put("campaign", "weight_customer", {0: 100.0})(frames)
    put("campaign", "objective", {0: "value"})(frames)
    outcome = frames["outcome"]
    [found] = problems_of(frames)
    assert found.field == "outcome.amount"
    assert "money of all payments that share_count counts" in found.reason
    count, before = (outcome[name].astype("Int64") for name in ("share_count", "share_count_before"))
    outcome["amount"] = 3000 * count
    rows = labeled(validate_tables(frames), "merchant")
    number = before.clip(lower=1).set_axis(outcome["request_id"]).loc[rows["request_id"]].to_numpy(dtype=float)
    hit = rows["response"] > 0
    np.testing.assert_allclose(rows["amount"][hit], 3000 * number[hit], rtol=1e-12)
    assert rows["amount"][~hit].isna().all()
    some, none = int(outcome.index[count.gt(0).fillna(False)][0]), int(outcome.index[count.notna()][1])
    put("outcome", "share_count", {none: 0})(frames)
    put("outcome", "amount", {some: 0, none: 700})(frames)
    assert [(found.field, found.rows) for found in problems_of(frames)] == [
        ("outcome.amount", (some,)),
        ("outcome.amount", (none,)),
    ]


def test_windows_that_the_campaign_names_are_looked_for(frames: Frames) -> None:
    put("campaign", "worth_customer", {0: "amount"})(frames)
    put("campaign", "weight_merchant", {0: 100.0})(frames)
    put("campaign", "objective", {0: "value"})(frames)
    put("campaign", "long_term", {0: '{"late": "x_late", "early": ["x_visits"]}'})(frames)
    # The index takes the place of the amount, so none is needed.
    assert [problem.field for problem in problems_of(frames)] == ["outcome.x_late", "outcome.x_visits"]
    frames["outcome"] = frames["outcome"].assign(x_late=np.nan, x_visits=1.0)
    plan = campaign_from_tables(validate_tables(frames)).long_term
    assert plan == LongTerm("x_late", ("x_visits",))
    for text, reason in (("{}", "must be"), ("{", "as JSON"), ('{"late": "late", "early": ["amount"]}', "x_")):
        put("campaign", "long_term", {0: text})(frames)
        [found] = problems_of(frames)
        assert (found.field, found.rows) == ("campaign.long_term", (0,))
        assert reason in found.reason


def test_accounts_without_a_worth_are_named_by_their_newest_rows(frames: Frames) -> None:
    put("campaign", "worth_customer", {0: "x_age"})(frames)
    put("campaign", "weight_customer", {0: 100.0})(frames)
    put("campaign", "weight_merchant", {0: 100.0})(frames)
    put("campaign", "objective", {0: "margin"})(frames)
    customers = np.flatnonzero(frames["account"]["side"] == "customer")
    frames["account"]["x_age"] = frames["account"]["x_age"].fillna(30.0)
    assert validate_tables(frames).campaign["objective"].tolist() == ["margin"]
    put("account", "x_age", {int(customers[0]): None, int(customers[3]): -1.0})(frames)
    [found] = problems_of(frames)
    assert (found.field, found.rows) == ("account.x_age", (customers[0], customers[3]))
    assert "worth of a response" in found.reason
    older = frames["account"].iloc[[customers[0], customers[3]]].assign(snapshot_ts=pd.Timestamp(0, tz="UTC"))
    put("account", "x_age", {int(customers[0]): 5.0, int(customers[3]): 6.0})(frames)
    frames["account"] = pd.concat([frames["account"], older], ignore_index=True)
    validate_tables(frames)


@pytest.mark.parametrize(("fault", "field", "rows", "reason"), FAULTS[::4])
def test_tables_in_parts_have_the_same_faults_and_the_same_content(
    frames: Frames, fault: Callable[[Frames], None], field: str, rows: tuple[int, ...], reason: str
) -> None:
    sound = validate_tables(in_parts(frames))
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(sound, name), frames[name])
    fault(frames)
    whole = {(each.field, each.reason, each.rows, each.count) for each in problems_of(frames)}
    with pytest.raises(InvalidTable) as caught:
        validate_tables(in_parts(frames))
    assert {(each.field, each.reason, each.rows, each.count) for each in caught.value.problems} == whole


def test_a_fault_of_several_parts_is_one_with_its_first_rows(frames: Frames) -> None:
    put("edge", "weight", dict.fromkeys(range(1, 8), -1))(frames)
    with pytest.raises(InvalidTable) as caught:
        validate_tables(in_parts(frames))
    (problem,) = caught.value.problems
    assert (problem.rows, problem.count) == ((1, 2, 3, 4, 5), 7)


def test_the_file_of_a_table_in_parts_goes_with_the_tables(frames: Frames) -> None:
    tables = validate_tables(in_parts(frames))
    file = tables.sources["edge"]
    assert isinstance(file, Path)
    assert file.exists()
    del tables
    gc.collect()
    assert not file.exists()


def test_a_bad_cell_is_reported_once(frames: Frames) -> None:
    put("edge", "weight", {3: "heavy"})(frames)
    put("account", "snapshot_ts", {3: "yesterday"})(frames)
    put("outcome", "redeemed", {1: 2})(frames)
    assert [str(problem.field) for problem in problems_of(frames)] == [
        "account.snapshot_ts",
        "edge.weight",
        "outcome.redeemed",
    ]


def test_all_faults_of_all_tables_are_listed_at_once(frames: Frames) -> None:
    frames["account"]["comment"] = "x"
    frames["edge"]["c_mood"] = "x"
    del frames["offer"]["kind"]
    put("exposure", "propensity", {4: 2, 5: "half"})(frames)
    frames["outcome"] = pd.concat([frames["outcome"], frames["outcome"][["mature"]]], axis=1)
    frames["campaign"] = pd.concat([frames["campaign"]] * 2)
    error = refusal(frames)
    fields = [problem.field for problem in error.problems]
    assert fields == [
        "account.comment",
        "edge.c_mood",
        "offer.kind",
        "exposure.propensity",
        "exposure.propensity",
        "outcome.mature",
        "campaign",
    ]
    for problem in error.problems:
        assert str(problem) in str(error)


def test_missing_and_unknown_tables_are_named(frames: Frames) -> None:
    del frames["edge"]
    frames["session"] = pd.DataFrame({"a": [1]})
    assert {(p.table, p.reason.split(";")[0]) for p in problems_of(frames)} == {
        ("edge", "the table is missing"),
        ("session", "is not a table"),
    }


@pytest.mark.parametrize("name", TABLES)
def test_only_edges_may_be_empty(frames: Frames, name: str) -> None:
    frames[name] = frames[name].iloc[:0]
    if name == "edge":
        assert len(validate_tables(frames).edge) == 0
    else:
        assert name in {problem.table for problem in problems_of(frames)}


def test_the_same_account_may_stand_on_both_sides_and_at_several_times(frames: Frames) -> None:
    assert frames["account"].groupby("account_id")["side"].nunique().max() == 2
    later = frames["account"].assign(snapshot_ts=lambda f: f["snapshot_ts"] + pd.Timedelta(days=1))
    both = pd.concat([frames["account"], later], ignore_index=True)
    assert len(validate_tables({**frames, "account": both}).account) == 2 * len(later)
    again = pd.concat([both, later.iloc[[3]]], ignore_index=True)
    (problem,) = problems_of({**frames, "account": again})
    assert (problem.field, problem.rows) == ("account.account_id", (len(both),))


def test_an_immature_outcome_needs_no_label(frames: Frames) -> None:
    put("outcome", "redeemed", {1: None})(frames)
    put("outcome", "mature", {1: False})(frames)
    assert not validate_tables(frames).outcome["mature"].iloc[1]


def test_a_side_without_offers_has_no_cost_basis(frames: Frames) -> None:
    frames["exposure"] = frames["exposure"][frames["exposure"]["side"] == "customer"]
    frames["outcome"] = frames["outcome"][frames["outcome"]["request_id"].isin(frames["exposure"]["request_id"])]
    frames["offer"] = frames["offer"][frames["offer"]["side"] == "customer"]
    (problem,) = problems_of(frames)
    assert problem.field == "campaign.cost_basis_merchant"
    frames["campaign"]["cost_basis_merchant"] = None
    validate_tables(frames)


def test_the_message_is_bounded_and_the_problems_are_not(frames: Frames) -> None:
    for number in range(60):
        frames["account"][f"unknown{number}"] = 1
    frames["edge"]["weight"] = -1.0
    error = refusal(frames)
    assert len(error.problems) == 61
    assert len(str(error).splitlines()) == 27
    assert error.problems[-1].count == len(frames["edge"])
    assert error.problems[-1].rows == (0, 1, 2, 3, 4)
    assert (error.field, error.status) == ("account.unknown0", 422)


def test_rows_are_counted_from_0_whatever_the_index(frames: Frames) -> None:
    frames["edge"].index = frames["edge"].index[::-1]
    put("edge", "weight", {6: -1})(frames)
    assert problems_of(frames)[0].rows == (6,)


def test_absent_optional_columns_are_filled_with_unknown(frames: Frames) -> None:
    slim = {**frames, "exposure": frames["exposure"].drop(columns=["partner_id", "price_version", "exploration"])}
    exposure = validate_tables(slim).exposure
    assert exposure["partner_id"].isna().all()
    assert exposure["price_version"].isna().all()
    assert not exposure["exploration"].any()
    assert list(exposure.columns) == list(frames["exposure"].columns)


def test_some_tables_are_checked_without_the_others(frames: Frames) -> None:
    some = {name: frames[name] for name in ("account", "exposure")}
    assert list(validate_some(some)) == ["account", "exposure"]
    put("exposure", "account_id", {1: "nobody"})(some)
    with pytest.raises(InvalidTable, match="is not a customer"):
        validate_some(some)


def test_300_000_exposures_are_checked_in_seconds() -> None:
    rows = 300_000
    ids = [f"u{number}" for number in range(rows)]
    day = pd.Timestamp("2026-03-02", tz="UTC")
    request = [f"r{number}" for number in range(rows)]
    account = pd.DataFrame({"account_id": ids, "side": "customer", "snapshot_ts": day, "x_a": 1.0})
    exposure = pd.DataFrame(
        {
            "request_id": request,
            "account_id": ids,
            "side": "customer",
            "offer_id": "a",
            "decided_at": day,
            "propensity": 1.0,
        }
    )
    outcome = pd.DataFrame({"request_id": request, "observed_at": day, "mature": True, "cost_paid": 0, "redeemed": -1})
    offer = pd.DataFrame({"offer_id": ["a"], "side": "customer", "kind": "coupon", "face_value": 1})
    started = time.perf_counter()
    with pytest.raises(InvalidTable, match="300000 rows, first: 0, 1, 2, 3, 4"):
        validate_some({"account": account, "offer": offer, "exposure": exposure, "outcome": outcome})
    assert time.perf_counter() - started < 20
