"""Aggregates of an account's past events: the features of the DNN-H baseline (S0)."""

from __future__ import annotations

from datetime import datetime

import pandas as pd

from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput

SECONDS_PER_DAY = 86_400.0

_ENDS: dict[Side, tuple[str, str]] = {"customer": ("src", "dst"), "merchant": ("dst", "src")}
"""Columns of an edge: its account's end and its partner's end."""


def interactions(edges: pd.DataFrame, accounts: pd.DataFrame, at: datetime) -> pd.DataFrame:
    """Aggregates of the events of every account until an instant; later events are not read.

    | column | of the account's events with ts <= at |
    |---|---|
    | h_events | how many |
    | h_partners | distinct partners |
    | h_amount_sum, h_amount_mean | of their weights |
    | h_days_since_last | days from the last one to ``at`` |
    | h_edge_mean_<name> | mean of the edge feature x_<name> over events |
    | h_partner_mean_<name> | mean of the partners' x_<name>: each once, as of its newest snapshot by ``at`` |

    Args:
        edges: src (customer), dst (merchant), weight, ts, x_*; see the canonical tables.
        accounts: account_id, side, snapshot_ts, x_*.
        at: the instant, with its time zone.

    Returns:
        account_id, side, snapshot_ts (= ``at``) and the columns above (float64): one row per side and
        account that has a snapshot or an event by then, sorted. Without events h_events, h_partners
        and h_amount_sum are 0 and the rest is NaN. Which columns there are does not depend on ``at``.
        O(E log E) in the number of events.

    Raises:
        InvalidInput: ``at`` has no time zone.
    """
    now = pd.Timestamp(at)
    if now.tzinfo is None:
        raise InvalidInput("must have a time zone", field="at")
    now = now.tz_convert("UTC").as_unit("ns")
    past = edges[edges["ts"] <= now]
    known = accounts[accounts["snapshot_ts"] <= now].sort_values("snapshot_ts", kind="stable")
    newest = known.drop_duplicates(["account_id", "side"], keep="last")
    frames = []
    for side in SIDES:
        own, other = _ENDS[side]
        partner_side = accounts[accounts["side"] != side]
        shown = [name for name in accounts.columns if name.startswith("x_") and partner_side[name].notna().any()]
        partners = newest.loc[newest["side"] != side].set_index("account_id")[shown]
        frame = _aggregate(past.rename(columns={own: "account_id", other: "partner_id"}), partners, now)
        everyone = pd.Index(newest.loc[newest["side"] == side, "account_id"]).union(frame.index).rename("account_id")
        frame = frame.reindex(everyone)
        nothing_yet = ["h_events", "h_partners", "h_amount_sum"]
        frame[nothing_yet] = frame[nothing_yet].fillna(0.0)
        frame = frame.reset_index()
        frame.insert(1, "side", side)
        frame.insert(2, "snapshot_ts", pd.Series(now, index=frame.index, dtype="datetime64[ns, UTC]"))
        frames.append(frame)
    columns = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    together = pd.concat(filled, ignore_index=True).reindex(columns=columns)
    return together.astype({name: float for name in columns if name.startswith("h_")})


def _aggregate(events: pd.DataFrame, partners: pd.DataFrame, now: pd.Timestamp) -> pd.DataFrame:
    """Aggregates by account_id; ``partners`` holds the features of the other side by account_id."""
    edge_features = [name for name in events.columns if name.startswith("x_")]
    grouped = events.groupby("account_id", sort=True)
    weight = grouped["weight"]
    frame = pd.DataFrame(
        {
            "h_events": grouped.size().astype(float),
            "h_partners": grouped["partner_id"].nunique().astype(float),
            "h_amount_sum": weight.sum(),
            "h_amount_mean": weight.mean(),
            "h_days_since_last": (now - grouped["ts"].max()).dt.total_seconds() / SECONDS_PER_DAY,
        }
    )
    for name in edge_features:
        frame[f"h_edge_mean_{name.removeprefix('x_')}"] = grouped[name].mean()
    if not partners.columns.empty:
        pairs = events[["account_id", "partner_id"]].drop_duplicates()
        means = pairs.join(partners, on="partner_id").groupby("account_id")[list(partners.columns)].mean()
        frame = frame.join(means.rename(columns=lambda name: f"h_partner_mean_{name.removeprefix('x_')}"))
    return frame
