import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowprice.datasets import Split
from shadowprice.decision import uniform
from shadowprice.errors import InvalidInput

MAY_18 = datetime(2016, 5, 18, tzinfo=UTC)
WEST = timezone(timedelta(hours=-5))
MAY_25 = datetime(2016, 5, 25, tzinfo=UTC)


def exposures(times: list[datetime]) -> pd.DataFrame:
    return pd.DataFrame({"account_id": "a", "decided_at": pd.to_datetime(times, utc=True)})


def test_time_boundaries_belong_to_the_later_part() -> None:
    split = Split(by="time", validation_from=MAY_18, test_from=MAY_25)
    tick = timedelta(microseconds=1)
    parts = split.assign(exposures([MAY_18 - tick, MAY_18, MAY_25 - tick, MAY_25]))
    assert parts.tolist() == ["train", "validation", "validation", "test"]


def test_boundaries_in_another_zone_are_the_same_instant() -> None:
    shanghai = Split(
        by="time",
        validation_from=datetime.fromisoformat("2016-05-18T08:00:00+08:00"),
        test_from=datetime.fromisoformat("2016-05-25T08:00:00+08:00"),
    )
    assert shanghai == Split(by="time", validation_from=MAY_18, test_from=MAY_25)


@given(st.lists(st.integers(0, 60 * 24), min_size=1, max_size=50), st.integers(0, 30))
def test_purging_leaves_no_training_label_that_was_unknown_when_the_test_began(hours: list[int], delay: int) -> None:
    times = [MAY_25 - timedelta(days=50) + timedelta(hours=hour) for hour in hours]
    rule: dict[str, Any] = {"by": "time", "validation_from": MAY_18, "test_from": MAY_25, "label_delay_days": delay}
    kept = Split(**rule).assign(exposures(times))
    purged = Split(**rule, purge=True).assign(exposures(times))
    for time, before, after in zip(times, kept, purged, strict=True):
        if before == "train" and time + timedelta(days=delay) > MAY_25:
            assert after == "purged"
        else:
            assert after == before


def test_purging_is_off_unless_asked_for() -> None:
    split = Split(by="time", validation_from=MAY_18, test_from=MAY_25, label_delay_days=15)
    assert split.assign(exposures([MAY_18 - timedelta(days=1)])).tolist() == ["train"]


def test_no_account_is_in_two_parts_and_rows_do_not_matter() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"account_id": [f"a{number}" for number in random.integers(0, 400, 5000)]})
    part = pd.Series(Split(by="account").assign(frame))
    assert part.groupby(frame["account_id"]).nunique().max() == 1
    order = random.permutation(5000)
    assert (Split(by="account").assign(frame.iloc[order]) == part.to_numpy()[order]).all()


@pytest.mark.parametrize("shares", [(0.70, 0.15, 0.15), (0.5, 0.0, 0.5), (0.2, 0.5, 0.3)])
def test_accounts_fall_in_the_parts_by_their_shares(shares: tuple[float, float, float]) -> None:
    accounts = 40_000
    frame = pd.DataFrame({"account_id": [f"u{number}" for number in range(accounts)]})
    part = Split(by="account", shares=shares).assign(frame)
    for name, share in zip(("train", "validation", "test"), shares, strict=True):
        deviation = np.sqrt(share * (1 - share) / accounts)
        assert abs((part == name).mean() - share) <= 4 * deviation


def test_the_split_does_not_follow_the_hash_that_breaks_ties() -> None:
    ids = [f"u{number}" for number in range(4000)]
    test = Split(by="account").assign(pd.DataFrame({"account_id": ids})) == "test"
    points = np.array([uniform(account) for account in ids])
    assert abs(points[test].mean() - 0.5) < 4 * np.sqrt(1 / 12 / test.sum())


def test_a_known_account_keeps_its_part_for_ever() -> None:
    part = Split(by="account").assign(pd.DataFrame({"account_id": ["shop-10", "shop-11", "shop-17"]}))
    assert part.tolist() == ["validation", "train", "test"]


@pytest.mark.parametrize(
    "split",
    [
        Split(by="account", shares=(0.6, 0.2, 0.2)),
        Split(by="time", validation_from=MAY_18, test_from=MAY_25, label_delay_days=15, purge=True),
    ],
)
def test_a_split_survives_json(split: Split) -> None:
    assert Split.from_dict(json.loads(json.dumps(split.to_dict()))) == split


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"by": "row"}, "split.by"),
        ({"by": "time", "test_from": MAY_25}, "split.validation_from"),
        ({"by": "time", "validation_from": MAY_18, "test_from": datetime(2016, 5, 25)}, "split.test_from"),
        ({"by": "time", "validation_from": MAY_25, "test_from": MAY_18}, "split.test_from"),
        (
            {"by": "time", "validation_from": MAY_18, "test_from": MAY_25, "label_delay_days": -1},
            "split.label_delay_days",
        ),
        (
            {"by": "time", "validation_from": MAY_18, "test_from": MAY_25, "label_delay_days": 1e300},
            "split.label_delay_days",
        ),
        (
            {"by": "time", "validation_from": MAY_18, "test_from": datetime.max.replace(tzinfo=WEST)},
            "split.test_from",
        ),
        ({"by": "account", "test_from": MAY_25}, "split.by"),
        ({"by": "account", "shares": (0.5, 0.2, 0.2)}, "split.shares"),
        ({"by": "account", "shares": (1.2, -0.1, -0.1)}, "split.shares"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Split(**arguments)
    assert caught.value.field == field
