"""Interaction aggregates against a loop over accounts and events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.graphs.aggregates import interactions
from shadowprice.tables import Tables

AT = datetime(2026, 3, 10, 12, tzinfo=UTC)


def tables(seed: int = 0, events: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Edges and accounts around ``AT``: some later, some accounts on both sides, some without a snapshot."""
    random = np.random.default_rng(seed)
    customers = [f"a{k}" for k in range(30)]
    merchants = [f"a{k}" for k in range(25, 40)]
    edges = pd.DataFrame(
        {
            "src": random.choice(customers[:-2], events),
            "dst": random.choice(merchants, events),
            "relation": "paid_at",
            "weight": random.gamma(2.0, size=events),
            "ts": pd.Timestamp(AT) + pd.to_timedelta(random.integers(-30 * 86_400, 5 * 86_400, events), unit="s"),
            "x_hour": np.where(random.random(events) < 0.2, np.nan, random.normal(size=events)),
        }
    )
    edges.loc[0, "ts"] = pd.Timestamp(AT)
    rows = []
    for side, ids, feature in (("customer", customers, "x_c"), ("merchant", merchants, "x_m")):
        for name in ids:
            rows += [
                {
                    "account_id": name,
                    "side": side,
                    "snapshot_ts": pd.Timestamp(AT) + timedelta(days=int(random.integers(-20, 6))),
                    feature: random.normal(),
                    "x_both": random.normal() if random.random() < 0.8 else np.nan,
                }
                for _ in range(random.integers(0, 4))
            ]
    accounts = (
        pd.DataFrame(rows).drop_duplicates(["account_id", "side", "snapshot_ts"]).sample(frac=1, random_state=seed)
    )
    return edges, accounts.reset_index(drop=True)


def one_account(edges: pd.DataFrame, accounts: pd.DataFrame, name: str, side: str) -> dict[str, Any]:
    """The aggregates of one account, row by row."""
    own, other = ("src", "dst") if side == "customer" else ("dst", "src")
    mine = [edge for edge in edges.to_dict("records") if edge[own] == name and edge["ts"] <= AT]
    out: dict[str, Any] = {"h_events": len(mine), "h_amount_sum": sum(edge["weight"] for edge in mine)}
    partners = sorted({edge[other] for edge in mine})
    out["h_partners"] = len(partners)
    if not mine:
        return out
    out["h_amount_mean"] = out["h_amount_sum"] / len(mine)
    out["h_days_since_last"] = min((AT - edge["ts"]).total_seconds() for edge in mine) / 86_400
    hours = [edge["x_hour"] for edge in mine if not np.isnan(edge["x_hour"])]
    if hours:
        out["h_edge_mean_hour"] = sum(hours) / len(hours)
    for column in ("x_m" if side == "customer" else "x_c", "x_both"):
        values = []
        for partner in partners:
            seen = [
                row
                for row in accounts.to_dict("records")
                if row["account_id"] == partner and row["side"] != side and row["snapshot_ts"] <= AT
            ]
            if seen and not np.isnan(value := max(seen, key=lambda row: row["snapshot_ts"])[column]):
                values.append(value)
        if values:
            out[f"h_partner_mean_{column.removeprefix('x_')}"] = sum(values) / len(values)
    return out


def test_a_feature_of_events_may_have_the_name_of_a_feature_of_accounts() -> None:
    edges, accounts = tables()
    alike = found(edges.rename(columns={"x_hour": "x_both"}), accounts, AT)
    expected = found(edges, accounts, AT).rename(columns={"h_edge_mean_hour": "h_edge_mean_both"})
    pd.testing.assert_frame_equal(alike, expected)


def found(edges: pd.DataFrame, accounts: pd.DataFrame, at: datetime) -> pd.DataFrame:
    return interactions(Tables({"edge": edges, "account": accounts}), at)


@pytest.mark.parametrize("seed", [0, 1])
def test_aggregates_equal_a_loop_over_accounts_and_events(seed: int) -> None:
    edges, accounts = tables(seed)
    frame = found(edges, accounts, AT)
    known = accounts[accounts["snapshot_ts"] <= AT]
    past = edges[edges["ts"] <= AT]
    expected_rows = set(zip(known["account_id"], known["side"], strict=True))
    expected_rows |= {(name, "customer") for name in past["src"]} | {(name, "merchant") for name in past["dst"]}
    assert set(zip(frame["account_id"], frame["side"], strict=True)) == expected_rows
    assert len(frame) == len(expected_rows)
    columns = [name for name in frame.columns if name.startswith("h_")]
    assert len(columns) == 9
    for row in frame.to_dict("records"):
        expected = one_account(edges, accounts, row["account_id"], row["side"])
        for column in columns:
            wanted = expected.get(column, np.nan)
            assert row[column] == pytest.approx(wanted, rel=1e-12, nan_ok=True), (row["account_id"], column)
    assert (frame["snapshot_ts"] == pd.Timestamp(AT)).all()


def test_later_events_and_snapshots_change_nothing() -> None:
    edges, accounts = tables()
    later_edges, later_accounts = edges["ts"] > AT, accounts["snapshot_ts"] > AT
    assert later_edges.any()
    assert later_accounts.any()
    changed_edges = edges.assign(weight=edges["weight"].mask(later_edges, 1e9))
    changed_accounts = accounts.assign(x_both=accounts["x_both"].mask(later_accounts, 1e9))
    pd.testing.assert_frame_equal(
        found(edges, accounts, AT),
        found(changed_edges, changed_accounts, AT),
    )
    # The same change before the instant is seen, so the comparison above can fail.
    early = edges.assign(weight=edges["weight"].mask(~later_edges, 1e9))
    assert not found(early, accounts, AT).equals(found(edges, accounts, AT))


def test_an_account_without_events_has_zero_counts_and_unknown_means() -> None:
    edges, accounts = tables()
    quiet = pd.DataFrame(
        [{"account_id": "quiet", "side": "customer", "snapshot_ts": pd.Timestamp(AT) - timedelta(days=1), "x_c": 1.0}]
    )
    frame = found(edges, pd.concat([accounts, quiet], ignore_index=True), AT)
    (row,) = frame[frame["account_id"] == "quiet"].to_dict("records")
    assert (row["h_events"], row["h_partners"], row["h_amount_sum"]) == (0, 0, 0)
    assert np.isnan(row["h_amount_mean"])
    assert np.isnan(row["h_days_since_last"])


def test_the_columns_are_the_same_at_every_instant() -> None:
    edges, accounts = tables()
    now = found(edges, accounts, AT)
    before_anything = found(edges, accounts, AT - timedelta(days=400))
    assert len(before_anything) == 0
    assert before_anything.dtypes.to_dict() == now.dtypes.to_dict()


def test_an_instant_without_a_time_zone_is_refused() -> None:
    edges, accounts = tables(events=5)
    with pytest.raises(InvalidInput, match="at: must have a time zone"):
        found(edges, accounts, datetime(2026, 3, 10))
