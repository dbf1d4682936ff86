"""Rows that nothing is learned from, against what labeling and snapshots leave out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.currency import Currency
from shadowprice.datasets import Dataset, load
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidTable
from shadowprice.evidence.dropped import LIMIT, dropped
from shadowprice.evidence.faults import refuse_faults
from shadowprice.graphs.build import snapshot_times
from shadowprice.learning.labeling import context_of, write_labeled
from shadowprice.tables import Tables, campaign_from_tables


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load("world", customers=200, merchants=60, both=5, trials=2, day_requests=500)


def refuse(tables: Tables, split: Split | None = None) -> None:
    refuse_faults(tables, campaign_from_tables(tables), Currency(), split)


def late(tables: Tables, hours: float) -> Tables:
    """Profiles at ten instants, more than there are snapshots."""
    account = tables.account.copy()
    account["snapshot_ts"] += pd.to_timedelta(np.arange(len(account)) % 10 * hours, unit="h")
    return tables.replaced(account=account)


def test_every_row_of_the_world_is_learned_from(world: Dataset) -> None:
    found = dropped(world.tables, world.split)
    assert {side: rows.learned for side, rows in found.sides.items()} == {"customer": 400, "merchant": 120}
    assert found.early_ties == found.late_ties == 0
    refuse(world.tables)


def test_the_count_is_that_of_the_labeled_rows(world: Dataset, tmp_path: Path) -> None:
    tables = late(world.tables, 4)
    found = dropped(tables, world.split)
    for side, rows in found.sides.items():
        facts = write_labeled(
            replace(world, tables=tables),
            side,
            context_of(tables, side),
            snapshot_times(tables),
            tmp_path / f"{side}.parquet",
        )
        assert rows.no_profile == facts[f"{side} rows without a profile at the time"] > 0
        assert rows.learned == len(pd.read_parquet(tmp_path / f"{side}.parquet"))


def test_a_log_of_which_most_rows_would_be_lost_is_refused_with_the_counts(world: Dataset) -> None:
    """Such a run ended with status 0 on a seventh of its rows, and its report had them all."""
    with pytest.raises(InvalidTable) as error:
        refuse(late(world.tables, 4))
    found = dropped(late(world.tables, 4)).sides["customer"]
    assert f"account.snapshot_ts: {found.no_profile:,} of 400 offers of customers" in str(error.value)
    assert found.no_profile > LIMIT * 400


def test_ties_that_are_older_than_a_profile_at_their_end_are_counted_as_pandas_counts_them(world: Dataset) -> None:
    tables = late(world.tables, 4)
    times = snapshot_times(tables)
    first = tables.account.groupby(["side", "account_id"])["snapshot_ts"].min()
    ends = pd.concat(
        [
            tables.edge["src"].map(first["customer"]).reset_index(drop=True),
            tables.edge["dst"].map(first["merchant"]).reset_index(drop=True),
        ],
        axis=1,
    ).max(axis=1)
    instants = pd.DatetimeIndex(times)
    place = instants.searchsorted(tables.edge["ts"])
    inside = place < len(instants)
    seen = instants[np.minimum(place, len(instants) - 1)]
    found = dropped(tables)
    assert found.early_ties == int((inside & (ends.to_numpy() > seen)).sum()) > 0
    assert found.late_ties == int((~inside).sum())
    assert found.ties == len(tables.edge)


def test_ties_that_no_request_sees_are_refused_where_none_is_left(world: Dataset) -> None:
    tables = world.tables
    early = tables.account.assign(snapshot_ts=tables.edge["ts"].min() - pd.Timedelta(days=1))
    with pytest.raises(InvalidTable, match=rf"edge\.ts: all {len(tables.edge):,} ties are after the last profile"):
        refuse(tables.replaced(account=early))
    half = early.assign(snapshot_ts=early["snapshot_ts"].mask(early.index == 0, tables.edge["ts"].median()))
    found = dropped(tables.replaced(account=half))
    assert 0 < found.late_ties < found.ties


def test_results_that_only_responders_have_are_refused_and_newer_offers_may_wait(world: Dataset) -> None:
    tables = world.tables
    redeemed = tables.outcome["redeemed"].fillna(1).astype(bool)
    with pytest.raises(InvalidTable, match="also of those without a response"):
        refuse(tables.replaced(outcome=tables.outcome[redeemed].reset_index(drop=True)))
    decided = tables.exposure.set_index("request_id")["decided_at"]
    newest = tables.outcome["request_id"].map(decided) > decided.quantile(0.7)
    waiting = tables.replaced(outcome=tables.outcome[~newest].reset_index(drop=True))
    refuse(waiting)
    assert sum(rows.waiting for rows in dropped(waiting).sides.values()) == int(newest.sum())


def test_rows_that_the_split_purges_are_counted_and_not_refused(world: Dataset) -> None:
    decided = world.tables.exposure["decided_at"]
    split = Split(
        by="time",
        validation_from=decided.quantile(0.7).to_pydatetime(),
        test_from=decided.quantile(0.8).to_pydatetime(),
        label_delay_days=1.0,
        purge=True,
    )
    found = dropped(world.tables, split)
    parts = pd.Series(split.assign(world.tables.exposure)).value_counts()
    assert sum(rows.purged for rows in found.sides.values()) == parts["purged"] > 0
    assert sum(rows.learned for rows in found.sides.values()) == len(decided) - parts["purged"]
    refuse(world.tables, split)
    assert "left out by the split (purge)" in found.facts()["rows of customers"]
