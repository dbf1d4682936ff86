"""Rows of a plan as the ledger is told them, and as it answered."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shadowprice.campaign import Campaign
from shadowprice.lists.table import SCHEMA

SENT = (
    *("request_id", "account_id", "side", "level", "response", "expected_cost", "propensity", "reason"),
    *("response_unpaid", "arm", "groups", "unpaid_allowed", "basis"),
)
"""Columns that go to the ledger as they are."""
TAKEN = ("level", "response", "expected_cost", "propensity", "reason", "price_version", "model_version", "arm")
"""Columns that the ledger answers."""


def items_of(campaign: Campaign, planned: pa.Table) -> dict[str, list[Any]]:
    """Return the rows that may be given a level, as columns of the ledger's message.

    A plan of an earlier release has no bases.
    """
    asked = planned.filter(pc.greater_equal(planned["level"], 0))
    items: dict[str, list[Any]] = {name: asked[name].to_pylist() for name in SENT if name in asked.column_names}
    costs = {side: terms.unit_costs for side, terms in campaign.sides.items()}
    items["incentive"] = [costs[side][level] for side, level in zip(items["side"], items["level"], strict=True)]
    chances = asked["propensities"].combine_chunks()
    flat, ends = chances.flatten().to_numpy(), chances.value_lengths().to_numpy()
    if len(set(ends.tolist())) == 1:
        items["propensities"] = flat.reshape(len(ends), -1).tolist()
    else:
        items["propensities"] = [row.tolist() for row in np.split(flat, np.cumsum(ends)[:-1])]
    return items


def answered(campaign: Campaign, planned: pa.Table, decisions: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return the rows of a list, of which the ledger answered those that :func:`items_of` names, in their order."""
    rows = np.flatnonzero(np.asarray(planned["level"]) >= 0)
    columns: dict[str, Any] = {name: planned[name].combine_chunks() for name in SCHEMA.names}
    if rows.size:
        for name in TAKEN:
            given = pa.array(decisions[name], SCHEMA.field(name).type)
            columns[name] = given if rows.size == len(planned) else _placed(columns[name], rows, given)
        authorized = np.zeros(len(planned), dtype=np.bool_)
        authorized[rows] = True
        columns["authorized"] = pa.array(authorized)
    level, side = np.asarray(columns["level"]), np.asarray(columns["side"])
    offers, incentives = np.full(len(planned), "", dtype=object), np.zeros(len(planned), dtype=np.int64)
    for name, terms in campaign.sides.items():
        own = side == name
        offers[own] = np.array([*campaign.offer_ids[name], ""], dtype=object)[level[own]]
        incentives[own] = np.array([*terms.incentives, 0])[level[own]]
    columns["offer_id"], columns["incentive"] = pa.array(offers, pa.string()), pa.array(incentives)
    columns["value"] = pc.multiply(planned["worth"].combine_chunks(), columns["response"])
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _placed(column: pa.Array, rows: Any, given: pa.Array) -> pa.Array:
    """Return a column with other values at some rows."""
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(column, pa.array(mask), given)
