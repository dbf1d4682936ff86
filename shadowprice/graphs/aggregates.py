"""Aggregates of an account's past events: the features of the DNN-H baseline (S0)."""

from datetime import datetime

import pandas as pd

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import require
from shadowprice.graphs.tie_sums import TieSums, summed
from shadowprice.tables.database import Tables, instant

MICROSECONDS_PER_DAY = 86_400e6

_ENDS: dict[Side, tuple[str, str]] = {"customer": ("src", "dst"), "merchant": ("dst", "src")}
"""Columns of an edge: its account's end and its partner's end."""


def interactions(tables: Tables, at: datetime, ties: TieSums | None = None) -> pd.DataFrame:
    """Aggregates of the events of every account until an instant; later events are not read.

    They are computed from the sums of each pair of accounts, which the events of a day are added to.

    | column | of the account's events with ts <= at |
    |---|---|
    | h_events | how many |
    | h_partners | distinct partners |
    | h_amount_sum, h_amount_mean | of their weights |
    | h_days_since_last | days from the last one to ``at`` |
    | h_edge_mean_<name> | mean of the edge feature x_<name> over events |
    | h_partner_mean_<name> | mean of the partners' x_<name>: each once, as of its newest snapshot by ``at`` |

    Args:
        tables: of which ``edge`` and ``account`` are read.
        at: the instant, with its time zone.
        ties: sums of the events until ``at``; without them the events are summed here.

    Returns:
        account_id, side, snapshot_ts (= ``at``) and the columns above (float64): one row per side and
        account that has a snapshot or an event by then, sorted. Without events h_events, h_partners
        and h_amount_sum are 0 and the rest is NaN. Which columns there are does not depend on ``at``.
        O(P log P) in the number of pairs, and that of events without ``ties``.

    Raises:
        InvalidInput: ``at`` has no time zone.
    """
    with tables.connect(threads=1) as db:
        frames = [db.sql(query).to_arrow_table().to_pandas() for query in interactions_queries(tables, at, ties)]
    together = pd.concat([frame for frame in frames if len(frame)] or frames, ignore_index=True)
    columns = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    numbers = {name: float for name in columns if name.startswith("h_")}
    history: pd.DataFrame = together.reindex(columns=columns).astype({"snapshot_ts": "datetime64[ns, UTC]", **numbers})
    return history


def interactions_queries(tables: Tables, at: datetime, ties: TieSums | None = None) -> list[str]:
    """Return the SQL of :func:`interactions`, of each side, over :meth:`Tables.connect` with one thread."""
    require(pd.Timestamp(at).tzinfo is not None, "at", "must have a time zone")
    pairs = summed(tables, at) if ties is None else ties.query
    return [_query(tables, side, at, pairs) for side in SIDES]


def _query(tables: Tables, side: Side, at: datetime, pairs: str) -> str:
    own, other = _ENDS[side]
    now = instant(at)
    edge = [name for name in tables.columns("edge") if name.startswith("x_")]
    partner = _features(tables, side)
    edge_means = "".join(f', fsum("{name}") / nullif(sum("n_{name}"), 0) AS "h_edge_mean_{name[2:]}"' for name in edge)
    partner_means = "".join(f', favg(newest."{name}") AS "h_partner_mean_{name[2:]}"' for name in partner)
    means = ["h_amount_mean", "h_days_since_last", *(f"h_edge_mean_{name[2:]}" for name in edge)]
    means += [f"h_partner_mean_{name[2:]}" for name in partner]
    listed = ", ".join(f'"{name}"' for name in means)
    return f"""
        WITH pair AS (
            SELECT {own} AS account_id, {other} AS partner_id, * EXCLUDE (src, dst) FROM ({pairs})
        ), newest AS (
            SELECT * FROM account WHERE snapshot_ts <= {now}
            QUALIFY row_number() OVER (PARTITION BY account_id, side ORDER BY snapshot_ts DESC) = 1
        ), sums AS (
            SELECT account_id, sum(n) AS events, count(*) AS partners, fsum(weight) AS amount,
                fsum(weight) / sum(n) AS h_amount_mean,
                (epoch_us({now}) - max(last)) / {MICROSECONDS_PER_DAY} AS h_days_since_last{edge_means}
            FROM pair GROUP BY account_id
        ), partners AS (
            SELECT pair.account_id{partner_means}
            FROM pair JOIN newest ON newest.account_id = pair.partner_id AND newest.side <> '{side}'
            GROUP BY pair.account_id
        ), everyone AS (
            SELECT account_id FROM newest WHERE side = '{side}' UNION SELECT account_id FROM sums
        )
        SELECT account_id, '{side}' AS side, {now} AS snapshot_ts,
            CAST(coalesce(events, 0) AS DOUBLE) AS h_events, CAST(coalesce(partners, 0) AS DOUBLE) AS h_partners,
            CAST(coalesce(amount, 0) AS DOUBLE) AS h_amount_sum, {listed}
        FROM everyone LEFT JOIN sums USING (account_id) LEFT JOIN partners USING (account_id)
        ORDER BY account_id"""


def _features(tables: Tables, side: Side) -> list[str]:
    """Features that accounts of the other side have a value of."""
    names = [name for name in tables.columns("account") if name.startswith("x_")]
    if not names:
        return []
    counts = ", ".join(f'count("{name}")' for name in names)
    with tables.connect() as db:
        (known,) = db.sql(f"SELECT {counts} FROM account WHERE side <> '{side}'").fetchall()
    return [name for name, count in zip(names, known, strict=True) if count]
