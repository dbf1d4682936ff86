"""Requests of one side with a final outcome, as arrays."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.graphs.tie_sums import quoted
from shadowprice.tables import Tables, labels_query
from shadowprice.tables.database import ROW
from shadowprice.tables.views import has_clusters

COMPARED_ACCOUNTS = 200_000
"""Accounts whose features are compared between levels, at most; more would not change a verdict."""
WEIGHT = "balancing_weight"
_ENDS: dict[Side, tuple[str, str]] = {"customer": ("src", "dst"), "merchant": ("dst", "src")}


@dataclass(frozen=True, eq=False)
class Rows:
    """N requests in the order of the exposures.

    row         (N,), place in the exposure table
    level       (N,), index of the level given
    response    (N,), final response; cost (N,), minor units paid
    propensity  (N,), probability of the level given
    at          (N,), instant of the decision, seconds since 1970
    account     (N,), code of the cluster of the account, else of the account
    partner     (N,), code of the partner named, else of the account's main partner; None where there is one at most
    weight      (N,), balancing weight that training fitted to the row, None where rows have none or they are those of
        ``propensity``
    clustered   whether accounts have clusters
    """

    row: NDArray[np.int64]
    level: NDArray[np.int64]
    response: Array
    cost: Array
    propensity: Array
    at: Array
    account: NDArray[np.int64]
    partner: NDArray[np.int64] | None
    weight: Array | None
    clustered: bool

    def only(self, kept: NDArray[np.bool_]) -> "Rows":
        """Return the rows of a mask (N,)."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        cut: dict[str, Any] = {name: array[kept] for name, array in found.items() if isinstance(array, np.ndarray)}
        return replace(self, **cut)


def read_rows(tables: Tables, side: Side, labeled: Path | None = None) -> Rows:
    """Read the requests of a side that have a final outcome.

    Args:
        tables: of the data set.
        side: whose requests.
        labeled: labeled rows of the training set; where they have a :data:`WEIGHT`, only they are read, with it.

    The main partner is the one with the largest sum of weights of ties. O(n log n) for n requests.
    """
    own, other = _ENDS[side]
    weighted = labeled is not None and WEIGHT in pyarrow.parquet.read_schema(labeled).names
    join = f"JOIN read_parquet({quoted(labeled)}) AS w USING (request_id)" if weighted and labeled else ""
    clustered = has_clusters(tables)
    owner = "coalesce('cluster ' || l.cluster, l.account_id)" if clustered else "l.account_id"
    query = f"""
        WITH own AS (SELECT {own} AS account_id, {other} AS partner_id, sum(weight) AS paid FROM edge GROUP BY ALL),
        main AS (SELECT account_id, arg_max(partner_id, (paid, partner_id)) AS main FROM own GROUP BY account_id),
        labels AS (SELECT * FROM ({labels_query(tables, side)}))
        SELECT l.{ROW}, l.level, l.response, CAST(u.cost_paid AS DOUBLE) AS cost, l.propensity,
            epoch(l.decided_at) AS at,
            dense_rank() OVER (ORDER BY {owner}) - 1 AS account,
            dense_rank() OVER (ORDER BY coalesce(l.partner_id, m.main, 'account ' || l.account_id)) - 1 AS partner,
            {f"w.{WEIGHT}" if weighted else "CAST(NULL AS DOUBLE)"} AS weight
        FROM labels AS l JOIN outcome AS u USING (request_id) LEFT JOIN main AS m USING (account_id) {join}
        ORDER BY l.{ROW}"""
    # Partners of which there is one for each account are no second way of clusters.
    with tables.connect(threads=1) as db:
        fetched = db.sql(query).fetchnumpy()
    columns = {name: np.ma.getdata(column) for name, column in fetched.items()}
    partner, level = columns["partner"].astype(np.int64), columns["level"].astype(np.int64)
    propensity = columns["propensity"].astype(np.float64)
    fitted = weighted and not _known(columns["weight"], level, propensity)
    return Rows(
        row=columns[ROW].astype(np.int64),
        level=level,
        response=columns["response"].astype(np.float64),
        cost=columns["cost"].astype(np.float64),
        propensity=propensity,
        at=columns["at"].astype(np.float64),
        account=columns["account"].astype(np.int64),
        partner=partner if partner.max(initial=0) > 0 else None,
        weight=columns["weight"].astype(np.float64) if fitted else None,
        clustered=clustered,
    )


def drawn_by(tables: Tables, side: Side) -> str:
    """Return the category by which levels were drawn, though no cluster says so; empty where there is none.

    All requests with the same value of it had one offer; there are more values than offers, and at least twice as many
    accounts as values. O(n log n) for n requests and each category.
    """
    with tables.connect() as db:
        for table in ("account", "exposure"):
            for name in (f'"{name}"' for name in tables.columns(table) if name.startswith("c_")):
                own = f"SELECT DISTINCT account_id, {name} AS value FROM {table} WHERE side = '{side}'"
                (counts,) = db.execute(f"""
                    SELECT count(DISTINCT offer_id), count(DISTINCT value), count(DISTINCT (value, offer_id)),
                        count(DISTINCT account_id), count(DISTINCT (account_id, value))
                    FROM exposure JOIN ({own}) USING (account_id) WHERE side = '{side}' AND value IS NOT NULL
                """).fetchall()
                offers, values, pairs, accounts, once = counts
                if offers < values == pairs and 2 * values <= accounts == once:
                    return name.strip('"')
    return ""


def at_all_levels(rows: Rows) -> Rows:
    """Return the requests from the first of the level that began last to the last of the one that ended first."""
    bounds = pd.Series(rows.at).groupby(rows.level).agg(["min", "max"])
    kept = (rows.at >= bounds["min"].max()) & (rows.at <= bounds["max"].min())
    return rows.only(kept)


def time_of_draw(rows: Rows) -> "pd.Series[float]":
    """Return the instant at which the level of each request was drawn, by its row of the exposure.

    Where every account keeps its level, that is its first request: how soon it asks again may follow from the level.
    """
    at = pd.Series(rows.at, index=rows.row)
    of_account = pd.Series(rows.level).groupby(rows.account)
    keeps = bool((of_account.min() == of_account.max()).all())
    return at.groupby(rows.account).transform("min") if keeps else at


def _known(weight: Array, level: NDArray[np.int64], propensity: Array) -> bool:
    """Return whether the weights of each level are inverse to the logged propensities; the largest may be cut."""
    whole, product = weight < weight.max(initial=0.0), pd.Series(weight * propensity)
    of_level = product[whole].groupby(level[whole])
    most = of_level.max()
    uncut = pd.Series(level).map(most).fillna(np.inf)
    return bool((most - of_level.min() <= 1e-9 * most).all() and (product <= uncut * (1 + 1e-9)).all())


def read_features(tables: Tables, side: Side) -> pd.DataFrame:
    """Features of the accounts of a side as known when each request was decided, by the row of the exposure.

    Only columns x_* and c_* of the account table are read, and no profile from after the decision: a feature that the
    offer may have changed shows no imbalance. Of many accounts :data:`COMPARED_ACCOUNTS` are drawn by name.
    """
    names = [name for name in tables.columns("account") if name.startswith(("x_", "c_"))]
    columns = "".join(f', a."{name}"' for name in names)
    with tables.connect() as db:
        ((accounts,),) = db.sql(f"SELECT count(DISTINCT account_id) FROM exposure WHERE side = '{side}'").fetchall()
        part = int(1e9 * min(1.0, COMPARED_ACCOUNTS / max(accounts, 1)))
        frame: pd.DataFrame = db.sql(f"""
            SELECT l.{ROW}{columns}
            FROM (
                SELECT * FROM ({labels_query(tables, side)}) WHERE md5_number_lower(account_id) % 1000000000 < {part}
            ) AS l
            ASOF LEFT JOIN (SELECT * FROM account WHERE side = '{side}') AS a
            ON l.account_id = a.account_id AND l.decided_at >= a.snapshot_ts
            ORDER BY l.{ROW}""").df()
    kept = [name for name in names if frame[name].notna().any()]
    return frame.set_index(ROW)[kept]
