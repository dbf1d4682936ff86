from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import describe
from feature_repo.offline import training_frame, training_frames, write_interactions, write_profiles
from feature_repo.store import create, open_store
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.on_ray.local import start_ray
from shadowprice.on_ray.parts import on_actors

START = pd.Timestamp("2026-03-02T00:00:00Z")


def history(seed: int, accounts: int = 40, snapshots: int = 5) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Profiles, aggregates and decisions of customers over ten days; some customers have no history."""
    random = np.random.default_rng(seed)

    def times(count: int) -> pd.DatetimeIndex:
        return START + pd.to_timedelta(random.integers(0, 10 * 86_400 * 10**6, count), unit="us")

    count = accounts * snapshots
    profile = pd.DataFrame(
        {
            "account_id": [f"a{k}" for k in random.integers(0, accounts, count)],
            "side": "customer",
            "snapshot_ts": times(count),
            "x_spend": random.normal(size=count),
            "x_income_y": np.where(random.random(count) < 0.3, np.nan, random.normal(size=count)),
            "x_income_y_": random.normal(size=count),
            "c_city": random.choice(np.array(["Ulm", "Köln", None], dtype=object), count),
        }
    )
    aggregates = pd.DataFrame(
        {
            "account_id": [f"a{k}" for k in random.integers(0, accounts, count)],
            "side": "customer",
            "snapshot_ts": times(count),
            "h_events": random.poisson(3.0, count).astype(float),
        }
    )
    decisions = 500
    exposures = pd.DataFrame(
        {
            "request_id": [f"r{k}" for k in range(decisions)],
            "account_id": [f"a{k}" for k in random.integers(0, accounts + 5, decisions)],
            "decided_at": times(decisions),
        },
        index=random.permutation(decisions) + 1000,
    )
    return profile, aggregates, exposures


def joined(folder: Path, profile: pd.DataFrame, aggregates: pd.DataFrame, exposures: pd.DataFrame) -> pd.DataFrame:
    store = create(folder, describe(profile, aggregates))
    write_profiles(store, profile)
    write_interactions(store, aggregates)
    return training_frame(store, exposures, "customer")


@pytest.fixture
def ray() -> Iterator[None]:
    import ray

    start_ray(ray, num_cpus=2, include_dashboard=False)
    yield
    ray.shutdown()


def shared(folder: Path, workers: int, exposures: pd.DataFrame) -> pd.DataFrame:
    """Join of all exposures, in parts of 40, by a store that is there."""
    asked: list[tuple[Side, pd.DataFrame]] = [
        ("customer", exposures[start : start + 40]) for start in range(0, len(exposures), 40)
    ]
    with on_actors(workers, folder):
        return pd.concat(training_frames(open_store(folder), asked))


@pytest.mark.usefixtures("ray")
def test_the_join_equals_pandas_own_as_of_join_row_by_row_also_in_parts_and_on_ray(tmp_path: Path) -> None:
    profile, aggregates, exposures = history(0)
    frame = joined(tmp_path, profile, aggregates, exposures)
    for workers in (0, 2):
        pd.testing.assert_frame_equal(shared(tmp_path, workers, exposures), frame)
    assert frame.index.equals(exposures.index)
    expected = exposures.reset_index(names="place").sort_values("decided_at")
    for table in (profile, aggregates):
        ordered = table.drop(columns="side").sort_values("snapshot_ts")
        expected = pd.merge_asof(expected, ordered, left_on="decided_at", right_on="snapshot_ts", by="account_id")
        expected = expected.rename(columns={"snapshot_ts": "taken" if table is profile else "aggregated"})
    expected = expected.set_index("place").loc[exposures.index]
    for name in ("x_spend", "x_income_y", "x_income_y_", "h_events"):
        np.testing.assert_array_equal(frame[name], expected[name])
    assert [city for city in frame["c_city"] if pd.notna(city)] == expected["c_city"].dropna().tolist()
    taken = [np.floor(time.timestamp()) if pd.notna(time) else np.nan for time in expected["taken"]]
    np.testing.assert_array_equal(frame["snapshot_at"], taken)
    assert 0 < frame["snapshot_at"].isna().sum() < len(frame)
    assert set(frame.columns) == {"snapshot_at", "x_spend", "x_income_y", "x_income_y_", "c_city", "h_events"}


def test_a_planted_future_feature_does_not_reach_the_training_rows(tmp_path: Path) -> None:
    """A profile row taken after the decision holds the label; joining the latest profile would leak it."""
    random = np.random.default_rng(3)
    label = random.integers(0, 2, 200).astype(float)
    names = [f"a{k}" for k in range(label.size)]
    decided_at = START + pd.Timedelta(days=2)

    def snapshot(at: pd.Timestamp, value: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame({"account_id": names, "side": "customer", "snapshot_ts": at, "x_balance": value})

    before = snapshot(decided_at - pd.Timedelta(days=1), random.normal(size=label.size))
    after = snapshot(decided_at + pd.Timedelta(microseconds=1), label)
    exposures = pd.DataFrame({"account_id": names, "decided_at": decided_at})
    profile = pd.concat([before, after], ignore_index=True)
    store = create(tmp_path, describe(profile))
    write_profiles(store, profile)

    def correlation(feature: pd.Series) -> float:
        return float(np.corrcoef(feature, label)[0, 1])

    latest = profile.sort_values("snapshot_ts").drop_duplicates("account_id", keep="last").set_index("account_id")
    assert correlation(latest["x_balance"].loc[names]) == pytest.approx(1.0)

    honest = training_frame(store, exposures, "customer")
    assert abs(correlation(honest["x_balance"])) < 0.3
    np.testing.assert_array_equal(honest["x_balance"], before["x_balance"])
    assert (honest["snapshot_at"] <= decided_at.timestamp()).all()


def test_planted_future_aggregates_do_not_reach_the_training_rows(tmp_path: Path) -> None:
    profile, aggregates, exposures = history(4)
    clean = joined(tmp_path / "clean", profile, aggregates, exposures)
    last = exposures["decided_at"].max()
    future = aggregates.assign(snapshot_ts=last + pd.Timedelta(seconds=1), h_events=-1.0)
    planted = joined(tmp_path / "planted", profile, pd.concat([aggregates, future]), exposures)
    pd.testing.assert_frame_equal(clean, planted)


def test_nanoseconds_do_not_make_a_later_snapshot_look_earlier(tmp_path: Path) -> None:
    profile = pd.DataFrame(
        {"account_id": "a", "side": "customer", "snapshot_ts": [START + pd.Timedelta(900, "ns")], "x_balance": 1.0}
    )
    store = create(tmp_path, describe(profile))
    write_profiles(store, profile)
    times = [START + pd.Timedelta(nanoseconds, "ns") for nanoseconds in (100, 1000)]
    frame = training_frame(store, pd.DataFrame({"account_id": "a", "decided_at": times}), "customer")
    assert frame["x_balance"].isna().tolist() == [True, False]


def test_repeated_exposures_of_one_account_at_one_time_are_all_kept(tmp_path: Path) -> None:
    profile, aggregates, exposures = history(1)
    thrice = pd.concat([exposures] * 3).sample(frac=1, random_state=0)
    frame = joined(tmp_path, profile, aggregates, thrice)
    assert len(frame) == 3 * len(exposures)
    once = joined(tmp_path, profile, aggregates, exposures)
    pd.testing.assert_frame_equal(frame, once.loc[thrice.index])


def test_no_exposures_give_an_empty_frame_with_the_same_columns(tmp_path: Path) -> None:
    profile, aggregates, exposures = history(2)
    frame = joined(tmp_path, profile, aggregates, exposures)
    empty = joined(tmp_path, profile, aggregates, exposures.iloc[:0])
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == frame.dtypes.to_dict()


def test_an_account_on_both_sides_keeps_its_profiles_apart(account: pd.DataFrame, tmp_path: Path) -> None:
    store = create(tmp_path, describe(account))
    write_profiles(store, account)
    exposures = pd.DataFrame({"account_id": ["a3"], "decided_at": account["snapshot_ts"].max()})
    latest = account.drop_duplicates(["account_id", "side"], keep="last").set_index(["account_id", "side"])
    for side in ("customer", "merchant"):
        frame = training_frame(store, exposures, side)  # type: ignore[arg-type]
        assert frame["x_share_y"].tolist() == [latest.loc[("a3", side), "x_share_y"]]
    assert "x_spend" not in frame.columns


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda exposures: exposures.drop(columns="decided_at"), "exposures.decided_at"),
        (lambda exposures: exposures.assign(decided_at=pd.Timestamp("2026-03-05")), "exposures.decided_at"),
        (lambda exposures: exposures.assign(account_id=None), "exposures.account_id"),
        (lambda exposures: exposures.assign(side="merchant"), "exposures.side"),
    ],
)
def test_wrong_exposures_are_refused_by_column(
    change: Callable[[pd.DataFrame], pd.DataFrame], field: str, tmp_path: Path
) -> None:
    profile, aggregates, exposures = history(0)
    with pytest.raises(InvalidInput) as caught:
        joined(tmp_path, profile, aggregates, change(exposures))
    assert caught.value.field == field


def test_a_side_the_store_does_not_have_is_refused(tmp_path: Path) -> None:
    profile, _, exposures = history(0)
    with pytest.raises(InvalidInput, match="no accounts of side 'merchant'"):
        training_frame(create(tmp_path, describe(profile)), exposures, "merchant")


def test_a_column_that_is_not_registered_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    profile, _, _ = history(0)
    store = create(tmp_path, describe(profile))
    with pytest.raises(InvalidInput, match="x_new"):
        write_profiles(store, profile.assign(x_new=1.0))
    with pytest.raises(InvalidInput, match="x_spend"):
        write_profiles(store, profile.drop(columns="x_spend"))
    assert not list(tmp_path.glob("*.parquet"))


def test_a_join_before_anything_was_written_says_what_to_do(tmp_path: Path) -> None:
    profile, _, exposures = history(0)
    with pytest.raises(Unavailable, match="write the profiles"):
        training_frame(create(tmp_path, describe(profile)), exposures, "customer")
