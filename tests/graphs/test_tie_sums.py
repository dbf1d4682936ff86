"""Ties updated by the day are those of all events, and sums of other events are not taken."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.graphs.aggregates import interactions
from shadowprice.graphs.pairs import pairs_of, pairs_until
from shadowprice.graphs.tie_sums import TieSums, keep, kept, latest
from shadowprice.tables import Tables

AT = datetime(2026, 3, 1, tzinfo=UTC)
ACCOUNTS = np.array(["a", "b", "c", "d", "e", "f"])
DAYS = [AT + timedelta(days=day) for day in (-300, -40, -39, -1, 0, 5)]


@pytest.fixture(scope="module")
def tables() -> Tables:
    random = np.random.default_rng(0)
    events = 400
    table = {
        "src": random.choice(ACCOUNTS[:4], events),
        "dst": random.choice(ACCOUNTS[2:], events),
        "relation": "paid",
        "weight": random.exponential(3.0, events),
        "ts": pd.Timestamp(AT) - pd.to_timedelta(random.integers(-20, 400, events) * 86_400_123_457, unit="us"),
        "x_amount": np.where(random.random(events) < 0.6, random.normal(size=events), np.nan),
        "x_items": random.integers(1, 9, events),
    }
    return Tables({"edge": pd.DataFrame(table)})


@pytest.fixture(scope="module")
def daily(tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> list[TieSums]:
    """Sums of successive days; each reads the events after the one before."""
    folder, made = tmp_path_factory.mktemp("sums"), list[TieSums]()
    for at in DAYS:
        made.append(TieSums.until(tables, at, folder / f"{len(made)}.parquet", latest(made, at)))
    return made


def test_the_ties_of_each_day_are_bitwise_those_of_all_events(tables: Tables, daily: list[TieSums]) -> None:
    for sums in daily:
        found, expected = pairs_of(sums, ACCOUNTS), pairs_until(tables, ACCOUNTS, sums.at)
        assert found.names == expected.names
        np.testing.assert_array_equal(found.ends, expected.ends)
        np.testing.assert_array_equal(found.features, expected.features)
    assert expected.ends.shape[1] > 8


def test_a_day_reads_only_its_own_events(tables: Tables, daily: list[TieSums], tmp_path: Path) -> None:
    """Earlier events that are gone are still in the sums."""
    before = daily[2]
    rest = Tables({"edge": tables.edge[tables.edge["ts"] > before.at]})
    found = pairs_of(TieSums.until(rest, AT, tmp_path / "day.parquet", before), ACCOUNTS)
    np.testing.assert_array_equal(found.features, pairs_until(tables, ACCOUNTS, AT).features)


def test_kept_sums_are_taken_while_their_events_and_files_are_the_same(
    tables: Tables, daily: list[TieSums], tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    found = keep(daily, folder, tables)
    assert [each.at for each in found] == DAYS
    assert all(each.path.parent == folder and each.path.exists() for each in found)
    edge = tables.edge
    shuffled = Tables({"edge": edge.sample(frac=1.0, random_state=0)})
    assert [each.at for each in kept(folder, shuffled)] == DAYS
    # A payment that was corrected changes the days after it alone.
    changed = edge.copy()
    place = changed["ts"].between(DAYS[2], DAYS[3]).to_numpy().argmax()
    changed.loc[changed.index[place], "weight"] += 1.0
    corrected = [each.at for each in kept(folder, Tables({"edge": changed}))]
    assert corrected == DAYS[:3]
    # Neither a damaged file nor other columns.
    (folder / "20260301T000000000000.parquet").write_bytes(b"")
    assert [each.at for each in kept(folder, tables)] == [at for at in DAYS if at != AT]
    assert kept(folder, Tables({"edge": edge.drop(columns="x_items")})) == []
    assert latest(kept(folder, tables), AT + timedelta(days=1)).at == DAYS[3]
    assert latest([], AT) is None


def test_aggregates_of_each_day_are_those_of_all_events(tables: Tables, daily: list[TieSums]) -> None:
    profiles = [
        {"account_id": name, "side": side, "snapshot_ts": pd.Timestamp(AT) - pd.Timedelta(days=day), "x_size": day * k}
        for k, name in enumerate(ACCOUNTS)
        for side, names in (("customer", ACCOUNTS[:4]), ("merchant", ACCOUNTS[2:]))
        if name in names
        for day in (30, 90, 400)
    ]
    both = Tables({"edge": tables.edge, "account": pd.DataFrame(profiles)})
    for sums in daily:
        pd.testing.assert_frame_equal(interactions(both, sums.at, sums), interactions(both, sums.at), rtol=1e-14)
    assert interactions(both, AT)["h_events"].sum() > 100


def test_aggregates_with_sums_read_no_event(tables: Tables, tmp_path: Path) -> None:
    sums = TieSums.until(tables, AT, tmp_path / "sums.parquet")
    columns = ["account_id", "side", "snapshot_ts"]
    profile = pd.DataFrame([["a", "customer", pd.Timestamp(AT)]], columns=columns)
    gone = Tables({"edge": tables.edge.iloc[:0], "account": profile})
    expected = interactions(Tables({"edge": tables.edge, "account": profile}), AT)
    pd.testing.assert_frame_equal(interactions(gone, AT, sums), expected)
