"""Schemas of the canonical tables: columns, types, ranges and keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

import numpy as np
import pandas as pd
import pandera.pandas as pa
import pyarrow
import pyarrow.compute as pc

from shadowprice.campaign import HOURS_LIMIT, SIDES, Objective, Policy
from shadowprice.campaign.identifiers import IDENTIFIER_RULE, MOST_CHARACTERS, NOT_PRINTABLE, is_identifier
from shadowprice.campaign.session import SESSION_ACTIONS
from shadowprice.curves import AMOUNT

TEXT: Final = "object"
TIME: Final = "datetime64[ns, UTC]"
WHOLE: Final = "Int64"
REAL: Final = "float64"
FLAG: Final = "boolean"

_ARROW = {
    TEXT: pyarrow.string(),
    TIME: pyarrow.timestamp("ns", tz="UTC"),
    WHOLE: pyarrow.int64(),
    REAL: pyarrow.float64(),
    FLAG: pyarrow.bool_(),
}

OFFER_KINDS = ("coupon", "commission", "voucher", "fund", "bonus", "other")
RELATIONS = ("paid_at", "consumed_at", "in_session", "next_item", "on_voucher", "related_to")
ACTIONS = ("click", "purchase", "sell", "favourite")
BUDGET_FORMS = ("total", "per_account", "per_response")
COST_BASES = ("on_response", "on_grant")

PHASES = ("before", "after")
PRICE_LEVELS = (1, 7)


def _column(kind: str, *checks: pa.Check, optional: bool = False) -> pa.Column:
    return pa.Column(
        kind,
        checks=list(checks),
        nullable=optional,
        required=not optional,
    )


def _one_of(values: Sequence[str]) -> pa.Check:
    return pa.Check.isin(values, error=f"must be one of {', '.join(values)}")


def _at_least(low: int) -> pa.Check:
    return pa.Check.ge(low, error=f"must be at least {low}")


def are_identifiers(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return which texts are identifiers (:func:`is_identifier`)."""
    texts = pyarrow.array(values, pyarrow.string(), from_pandas=True)
    # The common characters are looked at without Python.
    good = pc.match_substring_regex(texts, rf"^[ -~]{{1,{MOST_CHARACTERS}}}$").fill_null(True)
    marks = good.to_numpy(zero_copy_only=False).copy()
    rest = np.flatnonzero(~marks)
    marks[rest] = [is_identifier(text) for text in texts.take(rest).to_pylist()]
    return pd.Series(marks, index=values.index)


_IDENTIFIERS = pa.Check(are_identifiers, error=IDENTIFIER_RULE + NOT_PRINTABLE)


def _id(**kind: Any) -> pa.Column:
    return _column(TEXT, _IDENTIFIERS, **kind)


_SIDE = _column(TEXT, _one_of(SIDES))
_MONEY = _column(WHOLE, _at_least(0))
_OPTIONAL_MONEY = _column(WHOLE, _at_least(0), optional=True)
_YES_NO = _column(WHOLE, pa.Check.isin([0, 1], error="must be 0 or 1"), optional=True)
_COUNT = _column(WHOLE, _at_least(0), optional=True)
_POSITIVE = pa.Check(lambda v: (v > 0) & np.isfinite(v), error="must be a finite number above 0")
_NOT_NEGATIVE = pa.Check(lambda v: (v >= 0) & np.isfinite(v), error="must be a finite amount, not negative")
_PERCENT = pa.Check(lambda v: (v > 0) & (v <= 100), error="must be a percentage, above 0 and at most 100")
_PARQUET = pa.Check.str_matches(r"^[\w-]+\.parquet$", error="must be the name of a .parquet file in the workspace")
_WORTH = pa.Check.str_matches(
    rf"^(x_\w+|{AMOUNT})$", error=f"must be {AMOUNT}, or the name of a column of numbers of the accounts, x_…"
)
_SHARE = pa.Check(lambda v: (v >= 0) & (v < 1), error="must be a share, at least 0 and below 1")

_FEATURES: dict[str, pa.Column] = {
    r"^x_\w+$": pa.Column(
        REAL,
        pa.Check(np.isfinite, error="must be finite; leave a cell empty where the value is unknown"),
        nullable=True,
        required=False,
        regex=True,
    ),
    r"^c_\w+$": pa.Column(TEXT, _IDENTIFIERS, nullable=True, required=False, regex=True),
}
_NUMBERS = {pattern: column for pattern, column in _FEATURES.items() if pattern.startswith("^x_")}

SCHEMAS: dict[str, pa.DataFrameSchema] = {
    "account": pa.DataFrameSchema(
        {
            "account_id": _id(),
            "side": _SIDE,
            "snapshot_ts": _column(TIME),
            "risk_tolerance": _column(WHOLE, optional=True),
            **_FEATURES,
        },
        strict=True,
    ),
    "edge": pa.DataFrameSchema(
        {
            "src": _id(),
            "dst": _id(),
            "relation": _column(TEXT, _one_of(RELATIONS)),
            "weight": _column(REAL, _POSITIVE),
            "ts": _column(TIME),
            **_NUMBERS,
        },
        strict=True,
    ),
    "offer": pa.DataFrameSchema(
        {
            "offer_id": _id(),
            "side": _SIDE,
            "kind": _column(TEXT, _one_of(OFFER_KINDS)),
            "face_value": _OPTIONAL_MONEY,
            "cost": _OPTIONAL_MONEY,
            "min_spend": _OPTIONAL_MONEY,
            "percent": _column(REAL, _PERCENT, optional=True),
            "valid_hours": _column(WHOLE, _at_least(1), optional=True),
            "risk_level": _column(WHOLE, optional=True),
            "order_index": _column(WHOLE, optional=True),
            "demand": _column(WHOLE, _at_least(0), optional=True),
            "fee": _column(REAL, _NOT_NEGATIVE, optional=True),
            **_NUMBERS,
        },
        strict=True,
    ),
    "exposure": pa.DataFrameSchema(
        {
            "request_id": _id(),
            "account_id": _id(),
            "side": _SIDE,
            "offer_id": _id(),
            "decided_at": _column(TIME),
            "propensity": _column(
                REAL, pa.Check(lambda v: (v > 0) & (v <= 1), error="must be a probability above 0 and at most 1")
            ),
            "partner_id": _id(optional=True),
            "policy_version": _column(TEXT, optional=True),
            "price_version": _column(WHOLE, optional=True),
            "exploration": _column(FLAG, optional=True),
            "cluster": _id(optional=True),
            **_FEATURES,
        },
        strict=True,
    ),
    "outcome": pa.DataFrameSchema(
        {
            "request_id": _id(),
            "observed_at": _column(TIME),
            "mature": _column(FLAG),
            "cost_paid": _MONEY,
            "redeemed": _YES_NO,
            "clicked": _YES_NO,
            "amount": _OPTIONAL_MONEY,
            "share_count": _COUNT,
            "share_count_before": _COUNT,
            **_NUMBERS,
        },
        strict=True,
    ),
    "campaign": pa.DataFrameSchema(
        {
            "campaign_id": _id(),
            "starts_at": _column(TIME),
            "hours": _column(WHOLE, pa.Check.in_range(1, HOURS_LIMIT, error=f"must be 1 to {HOURS_LIMIT} hours")),
            "budget_name": _id(),
            "budget_form": _column(TEXT, _one_of(BUDGET_FORMS)),
            "budget_limit": _column(REAL, _NOT_NEGATIVE),
            "cost_basis_customer": _column(TEXT, _one_of(COST_BASES), optional=True),
            "cost_basis_merchant": _column(TEXT, _one_of(COST_BASES), optional=True),
            "ordered_customer": _column(FLAG, optional=True),
            "ordered_merchant": _column(FLAG, optional=True),
            "weight_customer": _column(REAL, _POSITIVE, optional=True),
            "weight_merchant": _column(REAL, _POSITIVE, optional=True),
            "most_units_merchant": _column(WHOLE, _at_least(1), optional=True),
            "most_response_merchant": _column(REAL, _POSITIVE, optional=True),
            "expected_requests": _column(WHOLE, _at_least(1), optional=True),
            "late_reserve": _column(WHOLE, _at_least(0), optional=True),
            "exploration": _column(REAL, _SHARE, optional=True),
            "alarm_exploration": _column(REAL, _SHARE, optional=True),
            "experiment": _column(TEXT, optional=True),
            "holdout": _column(TEXT, optional=True),
            "limits": _column(TEXT, optional=True),
            "rules": _column(TEXT, optional=True),
            "policy": _column(TEXT, _one_of(get_args(Policy)), optional=True),
            "objective": _column(TEXT, _one_of(get_args(Objective)), optional=True),
            "least_return": _column(REAL, _NOT_NEGATIVE, optional=True),
            "worth_customer": _column(TEXT, _WORTH, optional=True),
            "worth_merchant": _column(TEXT, _WORTH, optional=True),
            "long_term": _column(TEXT, optional=True),
            "influence_customer": _column(TEXT, _PARQUET, optional=True),
            "influence_merchant": _column(TEXT, _PARQUET, optional=True),
        },
        strict=True,
    ),
    "action": pa.DataFrameSchema(
        {"account_id": _id(), "offer_id": _id(), "action": _column(TEXT, _one_of(ACTIONS)), "ts": _column(TIME)},
        strict=True,
    ),
    "session": pa.DataFrameSchema(
        {
            "session_id": _id(),
            "user_id": _id(),
            "voucher_id": _id(),
            "campaign": _id(optional=True),
            "min_spend": _MONEY,
            "discount": _MONEY,
            "collected_at": _column(TIME),
            "expires_at": _column(TIME, optional=True),
            "redeemed_at": _column(TIME, optional=True),
            "label": _YES_NO,
            **_FEATURES,
        },
        strict=True,
    ),
    "behaviour": pa.DataFrameSchema(
        {
            "session_id": _id(),
            "item_id": _id(),
            "action": _column(TEXT, _one_of(SESSION_ACTIONS)),
            "phase": _column(TEXT, _one_of(PHASES)),
            "ts": _column(TIME),
            "category": _id(optional=True),
            "brand": _id(optional=True),
            "price_level": _column(
                WHOLE, pa.Check.in_range(*PRICE_LEVELS, error="must be a price level, 1 to 7"), optional=True
            ),
        },
        strict=True,
    ),
}

OPTIONAL = frozenset({"action"})
"""Tables that a data set may do without."""
SESSION_TABLES: Final[tuple[str, ...]] = ("session", "behaviour")
"""Tables from which voucher models learn (S3); the other tables do not refer to them."""
CAMPAIGN_TABLES: Final[tuple[str, ...]] = tuple(name for name in SCHEMAS if name not in SESSION_TABLES)
"""Tables that describe a campaign."""
TABLES: Final[tuple[str, ...]] = tuple(name for name in CAMPAIGN_TABLES if name not in OPTIONAL)

KEYS: dict[str, tuple[str, ...]] = {
    "account": ("account_id", "side", "snapshot_ts"),
    "edge": ("ts", "src", "dst", "relation"),
    "offer": ("side", "face_value", "offer_id"),
    "exposure": ("decided_at", "request_id"),
    "outcome": ("request_id",),
    "campaign": ("campaign_id",),
    "action": ("account_id", "ts", "offer_id", "action"),
    "session": ("collected_at", "session_id"),
    "behaviour": ("session_id", "ts", "action", "item_id"),
}
"""Sort keys of a table when it is written; unique but for :data:`EVENTS`."""
UNIQUE: Final = {"offer": "offer_id", "exposure": "request_id", "outcome": "request_id", "session": "session_id"}
"""Table → column that no two of its rows may share."""
EVENTS: Final[tuple[str, ...]] = ("edge", "action", "behaviour")
"""Tables whose rows are events: they may repeat, and there may be none."""


def named_columns(table: str) -> dict[str, pa.Column]:
    """The columns of a table that have one fixed name, in canonical order."""
    return {name: column for name, column in SCHEMAS[table].columns.items() if not column.regex}


def kind_of(table: str, column: str) -> str | None:
    """The canonical type of a column, or None where the table may not have it."""
    fixed = named_columns(table).get(column)
    if fixed is not None:
        return str(fixed.dtype)
    if column.startswith("x_") and r"^x_\w+$" in SCHEMAS[table].columns:
        return REAL
    if column.startswith("c_") and r"^c_\w+$" in SCHEMAS[table].columns:
        return TEXT
    return None


def arrow_schema(table: str, columns: Iterable[str]) -> pyarrow.Schema:
    """Return the types of some columns of a table in files."""
    return pyarrow.schema([(column, _ARROW[kind_of(table, column) or TEXT]) for column in columns])
