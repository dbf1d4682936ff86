"""Parts of a list: its requests, and the rows of their decisions."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING
from shadowprice.lists.table import SCHEMA
from shadowprice.pacing.decision_log.basis import Bases
from shadowprice.policy import Decided, Eligible
from shadowprice.price import PriceRecord

PLAN = pa.schema(
    [
        *SCHEMA,
        ("groups", pa.string()),
        ("propensities", pa.list_(pa.float64())),
        ("response_unpaid", pa.float64()),
        ("unpaid_allowed", pa.bool_()),
        ("worth", pa.float64()),
        ("basis", pa.string()),
    ]
)
"""Columns of a list and what the ledger is told besides; ``worth`` is that of a unit of response."""


def request_ids(campaign: str, name: str, side: Side, account_id: Sequence[str]) -> list[str]:
    """Return the id of the request of each account of a list: a hash of campaign, list, side and account.

    Example:
        >>> request_ids("spring", "monday", "customer", ["ada"])
        ['21dc65655fe182fd6c94daed2b146742']
    """
    begin, ids = hashlib.blake2b(f"{campaign}\0{name}\0{side}\0".encode(), digest_size=16), []
    for account in account_id:
        digest = begin.copy()
        digest.update(account.encode())
        ids.append(digest.hexdigest())
    return ids


def rows_of(
    campaign: Campaign,
    account_id: pa.StringArray,
    request_id: Sequence[str],
    asked: Eligible,
    curves: Curves,
    decided: Decided,
    refused: tuple[NDArray[np.str_], NDArray[np.bool_]],
    record: PriceRecord,
) -> pa.Table:
    """Return the rows of n accounts, in the columns :data:`PLAN`, none of them authorized.

    Args:
        campaign: as the ledger knows it.
        account_id: n accounts.
        request_id: n ids.
        asked: m of the accounts, those that may be given some level.
        curves: theirs.
        decided: their decisions.
        refused: arm of each of the n accounts, and whether caps alone leave it no level.
        record: price that they were decided with.
    """
    side, n = asked.requests.side, len(account_id)
    arm, capped = refused
    terms, rows = campaign.terms(side), asked.rows
    level, columns = decided.decision.level, np.arange(rows.size)
    offers = pa.array([*campaign.offer_ids[side], ""], pa.string())
    own = curves.response[level, columns].astype(np.float64)
    value = np.asarray(decided.choices.value)[level, columns]
    worth = np.divide(value, own, where=own > 0, out=np.zeros_like(own))
    free = terms.unit_costs[0] == 0

    def placed(values: Any, fill: Any) -> NDArray[Any]:
        """Values (m,) at the rows of their accounts."""
        given = np.asarray(values)
        if given.size == n:
            return given
        whole = np.full(n, fill, dtype=given.dtype if given.dtype.kind != "U" else object)
        whole[rows] = given
        return whole

    levels = placed(level, NOTHING)
    chances = decided.decision.policy.propensities().T
    if rows.size < n:
        whole = np.zeros((n, chances.shape[1]))
        whole[rows] = chances
        chances = whole
    reasons = placed(decided.reasons, "ineligible")
    if capped.any():
        reasons = np.where(capped, "capped", reasons)
    given: dict[str, Any] = {
        "account_id": account_id,
        "side": _same(side, n),
        "level": levels,
        "offer_id": offers.take(pa.array(np.where(levels < 0, len(offers) - 1, levels))),
        "incentive": np.asarray([*terms.incentives, 0], dtype=np.int64)[levels],
        "code": _same("", n),
        "response": placed(own, 0.0),
        "value": placed(value, 0.0),
        "expected_cost": placed(record.spend_ratio * terms.cost(curves.response, curves.amounts)[level, columns], 0.0),
        "propensity": placed(decided.decision.propensity, 1.0),
        "arm": arm,
        "reason": reasons,
        "price_version": np.full(n, record.version),
        "model_version": _same(record.model_version, n),
        "request_id": request_id,
        "authorized": np.zeros(n, dtype=np.bool_),
        "groups": placed(decided.groups, "") if any(decided.groups) else _same("", n),
        "propensities": pa.ListArray.from_arrays(
            pa.array(np.arange(0, chances.size + 1, chances.shape[1]), pa.int32()), pa.array(chances.ravel())
        ),
        "response_unpaid": placed(np.where(decided.unpaid & free, curves.response[0], 0.0).astype(np.float64), 0.0),
        "unpaid_allowed": placed(decided.unpaid | (not free), False),
        "worth": placed(worth, 0.0),
        "basis": placed(Bases(campaign, side, record.sha256, of_list=True).of(decided, curves.response), ""),
    }
    return pa.table([_column(given[field.name], field.type) for field in PLAN], schema=PLAN)


def _same(text: str, n: int) -> pa.StringArray:
    return pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int8), pa.array([text])).dictionary_decode()


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
