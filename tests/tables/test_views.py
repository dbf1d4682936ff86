import json
from datetime import UTC, datetime

import pandas as pd
import pytest

from shadowprice.arms import Arm, Experiment, Holdout
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.limits import Cap, Limits
from shadowprice.tables import campaign_from_tables, labeled, validate_tables

Frames = dict[str, pd.DataFrame]


@pytest.mark.parametrize("side", ["customer", "merchant"])
def test_labeled_rows_agree_with_a_look_at_each_row(frames: Frames, side: Side) -> None:
    tables = validate_tables(frames)
    levels = {"customer": [50, 100, 200], "merchant": [20, 40]}[side]
    outcome = {row["request_id"]: row for row in frames["outcome"].to_dict("records")}
    expected = []
    for row in frames["exposure"].to_dict("records"):
        if row["side"] == side:
            seen = outcome[row["request_id"]]
            response = (
                seen["redeemed"] if side == "customer" else seen["share_count"] / max(seen["share_count_before"], 1)
            )
            face_value = int(row["offer_id"].split("-")[1])
            expected.append((row["request_id"], levels.index(face_value), face_value, float(response)))
    rows = labeled(tables, side)
    found = zip(rows["request_id"], rows["level"], rows["face_value"], rows["response"], strict=True)
    assert list(found) == expected
    assert list(rows.columns[-1:]) == ["c_channel"]


def test_immature_outcomes_are_not_labels(frames: Frames) -> None:
    everything = labeled(validate_tables(frames), "customer")
    late = frames["outcome"]["request_id"].isin(everything["request_id"].iloc[:5])
    frames["outcome"]["mature"] = ~late
    pd.testing.assert_frame_equal(
        labeled(validate_tables(frames), "customer"), everything.iloc[5:].reset_index(drop=True)
    )


def test_a_merchant_that_shared_nothing_before_counts_as_one(frames: Frames) -> None:
    tables = validate_tables(frames)
    outcome = tables.outcome.assign(share_count_before=0)
    rows = labeled(tables.replaced(outcome=outcome), "merchant")
    shared = outcome.set_index("request_id")["share_count"]
    assert rows["response"].tolist() == shared[rows["request_id"]].tolist()


COMMISSIONS = ("commission-20", "commission-40")


def test_the_campaign_is_what_the_tables_say(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)) == Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=(50, 100, 200), offers=("coupon-50", "coupon-100", "coupon-200")),
            "merchant": Terms(levels=(20, 40), cost_basis="on_grant", weight=0.5, offers=COMMISSIONS),
        },
        budget=Budget(name="day", form="total", limit=800),
        starts_at=datetime(2026, 3, 16, tzinfo=UTC),
        hours=24,
    )


def test_the_bounds_of_a_merchants_response_are_those_of_the_table(frames: Frames) -> None:
    frames["campaign"] = frames["campaign"].assign(
        cost_basis_merchant="on_response", most_units_merchant=3, most_response_merchant=7.5
    )
    merchant = campaign_from_tables(validate_tables(frames)).terms("merchant")
    assert merchant == Terms(levels=(20, 40), weight=0.5, most_units=3, most_response=7.5, offers=COMMISSIONS)


def test_the_expected_requests_of_a_campaign_are_those_of_the_table(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)).expected_requests is None
    frames["campaign"] = frames["campaign"].assign(expected_requests=30_000)
    assert campaign_from_tables(validate_tables(frames)).expected_requests == 30_000


def test_the_exploration_of_a_campaign_is_that_of_the_table(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)).exploration == 0.0
    frames["campaign"] = frames["campaign"].assign(exploration=0.05, alarm_exploration=0.2)
    found = campaign_from_tables(validate_tables(frames))
    assert (found.exploration, found.in_doubt().exploration) == (0.05, 0.2)
    frames["campaign"] = frames["campaign"].assign(exploration=1.0)
    with pytest.raises(InvalidTable, match="exploration"):
        validate_tables(frames)


def test_the_policy_of_a_campaign_is_that_of_the_table(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)).policy == "personal"
    frames["campaign"] = frames["campaign"].assign(policy="flat")
    assert campaign_from_tables(validate_tables(frames)).policy == "flat"
    frames["campaign"] = frames["campaign"].assign(policy="even")
    with pytest.raises(InvalidTable, match=r"campaign\.policy.*personal.*flat"):
        validate_tables(frames)


def test_the_holdout_of_a_campaign_is_that_of_the_table(frames: Frames) -> None:
    frames["campaign"] = frames["campaign"].assign(holdout='{"key": "company", "share": 500}')
    assert campaign_from_tables(validate_tables(frames)).holdout == Holdout(key="company", share=500)
    for wrong in ("{", '{"key": "company"}', '{"key": "company", "share": 500, "salt": "s"}'):
        frames["campaign"] = frames["campaign"].assign(holdout=wrong)
        with pytest.raises(InvalidInput, match="holdout"):
            campaign_from_tables(validate_tables(frames))


def test_the_experiment_of_a_campaign_is_that_of_the_table(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)).experiment is None
    test = Experiment(arms=(Arm(name="holdout", kind="holdout", share=500),), salt="spring")
    frames["campaign"] = frames["campaign"].assign(experiment=json.dumps(test.to_dict()))
    assert campaign_from_tables(validate_tables(frames)).experiment == test
    for wrong in ("{", '{"arms": []}', '{"arms": [{"name": "a"}], "salt": "s"}'):
        frames["campaign"] = frames["campaign"].assign(experiment=wrong)
        with pytest.raises(InvalidInput, match="experiment"):
            campaign_from_tables(validate_tables(frames))


def test_the_limits_of_a_campaign_are_those_of_the_table(frames: Frames) -> None:
    assert not campaign_from_tables(validate_tables(frames)).limits
    limits = Limits(caps=(Cap(name="daily", per="account", count=1, period="day"),))
    frames["campaign"] = frames["campaign"].assign(limits=json.dumps(limits.to_dict()))
    assert campaign_from_tables(validate_tables(frames)).limits == limits
    for wrong in ("{", "[]", '{"caps": [{"name": "a"}]}'):
        frames["campaign"] = frames["campaign"].assign(limits=wrong)
        with pytest.raises(InvalidInput, match="limits"):
            campaign_from_tables(validate_tables(frames))


def test_the_late_reserve_of_a_campaign_is_that_of_the_table(frames: Frames) -> None:
    assert campaign_from_tables(validate_tables(frames)).late_reserve == 0
    frames["campaign"] = frames["campaign"].assign(late_reserve=7)
    assert campaign_from_tables(validate_tables(frames)).late_reserve == 7


def test_an_unknown_side_is_refused(frames: Frames) -> None:
    with pytest.raises(InvalidInput, match="side"):
        labeled(validate_tables(frames), "buyer")  # type: ignore[arg-type]
