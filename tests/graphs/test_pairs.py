"""Payments become pairs: against a count by hand of every pair."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.graphs.accounts import AccountIndex
from shadowprice.graphs.pairs import pairs_until
from shadowprice.tables import Tables

AT = datetime(2026, 3, 1, tzinfo=UTC)
ACCOUNTS = np.array(["a", "aa", "b", "c10", "c9", "é"])


def payments(events: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    some = random.random(events)
    return pd.DataFrame(
        {
            "src": random.choice(ACCOUNTS[:4], events),
            "dst": random.choice(ACCOUNTS[2:], events),
            "relation": "paid",
            "weight": random.exponential(3.0, events),
            "ts": pd.Timestamp(AT) - pd.to_timedelta(random.integers(-20, 400, events) * 86_400_123_457, unit="us"),
            "x_amount": np.where(some < 0.6, random.normal(size=events), np.nan),
            "x_never": np.nan,
            "x_items": random.integers(1, 9, events),
        }
    )


@pytest.mark.parametrize("events", [1, 60, 300])
def test_a_pair_is_how_often_how_much_the_means_and_how_recently(events: int) -> None:
    table = payments(events).sample(frac=1.0, random_state=1)
    by_hand = defaultdict(list)
    for row in table.itertuples():
        if row.ts <= AT:
            by_hand[row.src, row.dst].append(row)
    found = pairs_until(Tables({"edge": table}), ACCOUNTS, AT)
    assert found.names == ("log_count", "log_weight", "x_amount", "x_never", "x_items", "log_days_ago")
    assert [tuple(ACCOUNTS[each]) for each in found.ends.T] == sorted(by_hand)
    for ends, values in zip(sorted(by_hand), found.features, strict=True):
        rows = by_hand[ends]
        amounts = [row.x_amount for row in rows if not np.isnan(row.x_amount)]
        days = (AT - max(row.ts for row in rows)) / timedelta(days=1)
        expected = [
            np.log1p(len(rows)),
            np.log1p(sum(row.weight for row in rows)),
            sum(amounts) / len(amounts) if amounts else np.nan,
            np.nan,
            sum(row.x_items for row in rows) / len(rows),
            np.log1p(days),
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_without_events_until_the_instant_there_are_no_pairs() -> None:
    late = payments(20).assign(ts=pd.Timestamp(AT) + pd.Timedelta(seconds=1))
    found = pairs_until(Tables({"edge": late}), ACCOUNTS, AT)
    assert found.ends.shape == (2, 0)
    assert found.features.shape == (0, 6)


def test_strangers_are_named_and_counted_by_pair_unless_they_come_later() -> None:
    table = payments(50).assign(ts=pd.Timestamp("2026-02-01", tz="UTC"))
    table.loc[[3, 4, 9], "src"] = ["zoe", "zoe", "yan"]
    table.loc[[3, 4, 9], "dst"] = ["b", "b", "c9"]
    with pytest.raises(InvalidInput, match=r"edge\.src: 2 ties name accounts.*such as 'yan'.*add their rows"):
        pairs_until(Tables({"edge": table}), ACCOUNTS, AT)
    table.loc[[3, 4, 9], "ts"] = pd.Timestamp("2026-04-01", tz="UTC")
    assert pairs_until(Tables({"edge": table}), ACCOUNTS, AT).ends.shape[1]


@pytest.mark.parametrize("asked", [["é", "c1", "a", "aa"], np.array(["é", "c1", "a", "aa"])])
def test_accounts_are_found_in_any_order_and_strangers_are_not(asked) -> None:
    index = AccountIndex(ACCOUNTS)
    assert index.find(asked).tolist() == [5, -1, 0, 1]
    assert index.find(pd.Series(asked, index=[7, 7, 8, 9])).tolist() == [5, -1, 0, 1]
    assert index.find([]).tolist() == []
    assert AccountIndex(ACCOUNTS[:0]).find(asked).tolist() == [-1] * 4


def test_accounts_that_are_numbers_are_read_as_they_print() -> None:
    assert AccountIndex(np.array(["10", "9"])).find([9, 10, 1]).tolist() == [1, 0, -1]


def test_of_known_sides_an_event_counts_where_its_ends_have_them() -> None:
    table = payments(200).assign(ts=pd.Timestamp("2026-02-01", tz="UTC"))
    is_side = np.array([[True, True, False, True, True, True], [True, True, True, True, False, True]])
    found = pairs_until(Tables({"edge": table}), ACCOUNTS, AT, is_side)
    kept = table[(table["src"] != "b") & (table["dst"] != "c9")]
    assert [tuple(ACCOUNTS[each]) for each in found.ends.T] == sorted(set(zip(kept["src"], kept["dst"], strict=True)))
    counts = kept.groupby(["src", "dst"]).size().to_numpy()
    np.testing.assert_allclose(found.features[:, 0], np.log1p(counts), rtol=1e-6)
