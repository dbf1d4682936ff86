"""Views of the tables: labeled rows, responses, the campaign."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from shadowprice.arms import Experiment, Holdout
from shadowprice.campaign import NOTHING_GIVEN, SIDES, Budget, Campaign, Segment, Side, Terms
from shadowprice.campaign.long_term import LongTerm
from shadowprice.currency import USD
from shadowprice.curves import AMOUNT
from shadowprice.documents import parse_json
from shadowprice.errors import InvalidInput
from shadowprice.limits import OUTCOME, Limits, Rule
from shadowprice.tables.database import ROW, Tables
from shadowprice.tables.offers import offers_of
from shadowprice.tables.schema import TIME

CLUSTER = "cluster"
"""Column of the exposures whose accounts depend on each other where they have the same value."""


def labels_query(tables: Tables, side: Side) -> str:
    """Return the SQL of :func:`labeled` over :meth:`Tables.connect`: in any order, with the ``row`` of the exposure.

    A customer's response is y = redeemed ∈ {0, 1}; a merchant's y = share_count / max(share_count_before, 1) (S0).
    """
    offered = offers_of(tables, side)
    if side == "customer":
        response = "CAST(u.redeemed AS DOUBLE)"
    else:
        response = "CAST(u.share_count AS DOUBLE) / greatest(u.share_count_before, 1)"
    funds = offered.order == "funds"
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in offered.ids)
    level = f"list_position([{names}], e.offer_id) - 1"
    own = [f'e."{name}"' for name in tables.columns("exposure") if name.startswith(("x_", "c_"))]
    kept = [name for name in ("clicked", AMOUNT) if funds and _known(tables, name)]
    learned = not funds and bool(tables.campaign[f"worth_{side}"].eq(AMOUNT).any())
    more = [f"CAST(u.{name} AS DOUBLE) AS {name}" for name in kept]
    if learned:
        of_unit = f" / nullif({response}, 0)" if side == "merchant" else ""
        more.append(f"CAST(u.{AMOUNT} AS DOUBLE){of_unit} AS {AMOUNT}")
    more += [f'u."{name}" AS "{OUTCOME}{name}"' for name in tables.columns("outcome") if name.startswith("x_")]
    if any(offered.percent):
        more += _percent_columns(f"({response}) > 0", learned=learned)
    groups = ""
    if has_clusters(tables):
        # Requests of the served log do not name the cluster of their account.
        own.append(f"g.{CLUSTER}")
        named = f"SELECT account_id, max({CLUSTER}) AS {CLUSTER} FROM exposure GROUP BY account_id"
        groups = f"LEFT JOIN ({named}) AS g ON g.account_id = e.account_id"
    columns = ", ".join([f"{response} AS response", *more, *own])
    return f"""
        SELECT e.row, e.request_id, e.account_id, e.partner_id, CAST({level} AS BIGINT) AS level,
            coalesce(o.face_value, 0) AS face_value, e.decided_at, e.propensity, {columns}
        FROM exposure AS e
        JOIN outcome AS u ON u.request_id = e.request_id
        JOIN offer AS o ON o.offer_id = e.offer_id {groups}
        WHERE e.side = '{side}' AND u.mature{f" AND e.offer_id <> '{NOTHING_GIVEN}'" if funds else ""}"""


def _percent_columns(responded: str, *, learned: bool) -> list[str]:
    """Return the SQL of what was paid, and of the amount of the order: its value, or a bound that the payment tells.

    An amount that is ``learned`` by account is known of each response.
    """
    if learned:
        return ["CAST(u.cost_paid AS DOUBLE) AS paid"]
    part = f"o.percent IS NOT NULL AND u.amount IS NULL AND {responded}"
    inside = f"{part} AND u.cost_paid > 0 AND u.cost_paid < o.face_value"
    columns = {
        "paid": "u.cost_paid",
        "amount": f"coalesce(u.amount, CASE WHEN {inside} THEN u.cost_paid * 100 / o.percent END)",
        "amount_least": f"""CASE WHEN {part} AND u.cost_paid >= o.face_value
            THEN greatest(o.face_value * 100 / o.percent, coalesce(o.min_spend, 0)) END""",
        "amount_most": f"CASE WHEN {part} AND u.cost_paid = 0 AND o.min_spend > 0 THEN o.min_spend END",
    }
    return [f"CAST({sql} AS DOUBLE) AS {name}" for name, sql in columns.items()]


def labeled(tables: Tables, side: Side) -> pd.DataFrame:
    """Exposures of one side with their mature response, in the order of the exposures.

    Columns: request_id, account_id, partner_id, level (int64 index into the side's levels), face_value (int64 minor
    units, 0 for an offer without one), decided_at, propensity, response (float64), of funds clicked, of funds and where
    the worth of a response is its amount the amount (minor units, of a merchant that of a unit of response, its amount
    over its response; 0 or NaN where nothing was bought), of a side with offers in percent paid, amount, amount_least
    and amount_most (minor units, NaN where not known; the bounds only where the amount is not the worth), outcome_x_*
    (numbers of the outcome, NaN where not known), then the x_* and c_* of the request, and cluster where any has one.
    Features of the account are not
    in here: they are joined point in time.
    """
    with tables.connect() as db:
        rows: pd.DataFrame = db.sql(f"{labels_query(tables, side)} ORDER BY row").to_arrow_table().to_pandas()
    return rows.drop(columns=ROW).astype({"decided_at": TIME})


def has_clusters(tables: Tables) -> bool:
    """Return whether any exposure names the cluster of its account."""
    if CLUSTER not in tables.columns("exposure"):
        return False
    with tables.connect() as db:
        return bool(db.execute(f"SELECT count({CLUSTER}) FROM exposure").fetchall()[0][0])


def _known(tables: Tables, column: str) -> bool:
    """Return whether an outcome has a value in a column."""
    with tables.connect() as db:
        return bool(db.execute(f"SELECT count({column}) FROM outcome").fetchall()[0][0])


def _parse(name: str, what: str, read: Callable[[Any], Any], text: str) -> Any:
    """Read a field of the campaign from JSON; ``what`` names it in errors."""
    try:
        return read(parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"is not {what} as JSON: {error!r}", field=f"campaign.{name}") from error


OF_SIDE: Mapping[str, Callable[[Any], Any]] = {
    "weight": float,
    "worth": str,
    "influence": str,
    "most_units": int,
    "most_response": float,
}
"""Column of the campaign table, before the name of a side → what reads it; an empty cell is the default."""
OPTIONAL: Mapping[str, Callable[[Any], Any]] = {
    "expected_requests": int,
    "late_reserve": int,
    "exploration": float,
    "alarm_exploration": float,
    "experiment": partial(_parse, "experiment", "an experiment", Experiment.from_dict),
    "holdout": partial(_parse, "holdout", "a holdout", Holdout.from_dict),
    "limits": partial(_parse, "limits", "a list of limits", Limits.from_dict),
    "long_term": LongTerm.parse,
    "rules": partial(_parse, "rules", "a list of rules", lambda given: tuple(map(Rule.from_dict, given))),
    "policy": str,
    "objective": str,
    "least_return": float,
}
"""Column of the campaign table → what reads it; an empty cell is the default."""


def campaign_from_tables(tables: Tables, currency: str = USD) -> Campaign:
    """The campaign that the ``campaign`` and ``offer`` tables describe; a side without offers is not in it.

    ``currency`` is the ISO 4217 code of their amounts.
    """
    row = tables.campaign.iloc[0]
    sides: dict[Side, Terms] = {}
    for side in SIDES:
        offered = offers_of(tables, side)
        if offered.ids:
            given = {name: f"{name}_{side}" for name in OF_SIDE if f"{name}_{side}" in row.index}
            sides[side] = Terms(
                cost_basis=row[f"cost_basis_{side}"],
                segments=_segments(tables, side) if offered.order == "funds" else (),
                **{name: OF_SIDE[name](row[column]) for name, column in given.items() if pd.notna(row[column])},
                **offered.terms(),
            )
    return Campaign(
        name=row["campaign_id"],
        sides=sides,
        budget=Budget(name=row["budget_name"], form=row["budget_form"], limit=float(row["budget_limit"])),
        starts_at=row["starts_at"].to_pydatetime(),
        hours=int(row["hours"]),
        **{name: read(row[name]) for name, read in OPTIONAL.items() if pd.notna(row[name])},
        currency=currency,
    )


def behaviours(tables: Tables, side: Side = "customer") -> pd.DataFrame:
    """account_id, level, action, ts: what accounts did with the funds of a side; without a table of actions no row."""
    if tables.action is None:
        nothing = {"account_id": [], "level": [], "action": [], "ts": pd.to_datetime([], utc=True)}
        return pd.DataFrame(nothing).astype({"account_id": object, "level": "int64", "action": object})
    number = _delivered(tables, side).set_index("offer_id")["order_index"]
    own = tables.action[tables.action["offer_id"].isin(number.index)].reset_index(drop=True)
    level = own["offer_id"].map(number).astype("int64")
    return own[["account_id", "action", "ts"]].assign(level=level)


def offer_features(tables: Tables, side: Side = "customer") -> pd.DataFrame | None:
    """level and x_* of the funds of a side, in order of their numbers; None where no fund has a feature."""
    own = _delivered(tables, side).sort_values("order_index", ignore_index=True)
    names = [name for name in own.columns if name.startswith("x_") and own[name].notna().any()]
    return own[names].assign(level=own["order_index"].astype("int64")) if names else None


def tolerances(tables: Tables, side: Side = "customer") -> pd.Series:
    """Account of a side → risk tolerance as last known, NaN where never."""
    own = tables.account[tables.account["side"] == side].sort_values("snapshot_ts", kind="stable")
    latest = own.drop_duplicates("account_id", keep="last").set_index("account_id")["risk_tolerance"]
    return latest.astype("Float64").astype(np.float64)


def _delivered(tables: Tables, side: Side) -> pd.DataFrame:
    """Offers of a side without the one that gives nothing, which no model learns."""
    return tables.offer[(tables.offer["side"] == side) & (tables.offer["offer_id"] != NOTHING_GIVEN)]


def _segments(tables: Tables, side: Side) -> tuple[Segment, ...]:
    offer = tables.offer[tables.offer["side"] == side].sort_values("order_index")
    demand, rest = offer["demand"].astype("Int64"), offer["offer_id"] == NOTHING_GIVEN
    accounts = tables.account.loc[tables.account["side"] == side, "account_id"].nunique()
    demand = demand.mask(rest & demand.isna(), max(0, accounts - int(demand.sum())))
    if demand.isna().any():
        rows = np.flatnonzero((tables.offer["side"] == side) & tables.offer["demand"].isna())
        raise InvalidInput(
            "is missing: how many accounts exactly a fund is to be given", field="offer.demand", rows=rows[:5].tolist()
        )
    risk = [None if pd.isna(level) else int(level) for level in offer["risk_level"]]
    fee = offer["fee"].astype("Float64").fillna(1.0).tolist()
    rows_of = zip(offer["offer_id"], demand.astype(int).tolist(), risk, fee, strict=True)
    return tuple(Segment(name=name, demand=demand, risk_level=level, fee=fee) for name, demand, level, fee in rows_of)
