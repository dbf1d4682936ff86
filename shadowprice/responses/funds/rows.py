"""Inputs of the models of funds: labeled deliveries and the behaviour before each, as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.checks import refuse_rows, require
from shadowprice.encoders.behaviour import Behaviours
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.tables.schema import ACTIONS

MOST_EVENTS = 12
"""Latest events of an account that are read."""
SECONDS_PER_DAY = 86_400.0
HELD_OUT = 0.2
"""Share of accounts kept for early stopping and for choosing between epochs."""
BEHAVIOUR_COLUMNS = ("account_id", "level", "action", "ts")


@dataclass(frozen=True, eq=False)
class FundRows:
    """n rows: the account's features, events and node, the offer delivered, and what came of it.

    v is log(1 + amount in units), 0 where nothing was bought; clicked is 0 where clicks are not logged.
    """

    numeric: Tensor
    category: Tensor
    events: Behaviours | None
    node: Tensor | None
    level: Tensor
    clicked: Tensor
    v: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return int(self.level.shape[0])

    def take(self, index: Tensor | slice) -> FundRows:
        """The rows at ``index``: positions, a mask, or a slice."""

        def of(column: Any) -> Any:
            return column.take(index) if isinstance(column, Behaviours) else None if column is None else column[index]

        return FundRows(**{name: of(column) for name, column in vars(self).items()})


def fund_rows(
    frame: pd.DataFrame, inputs: TabularInputs, events: Behaviours | None, node: Tensor | None, unit: int
) -> FundRows:
    """Rows of a frame; what it lacks is 0, a weight 1. Without amounts every conversion is one unit."""

    def column(name: str, default: float) -> NDArray[np.float64]:
        return frame[name].to_numpy(dtype=np.float64) if name in frame else np.full(len(frame), default)

    def number(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32))

    units = column("amount", 0.0) / unit if "amount" in frame else column("response", 0.0)
    return FundRows(
        numeric=torch.from_numpy(inputs.numeric(frame)),
        category=torch.from_numpy(inputs.category(frame)),
        events=events,
        node=node,
        level=torch.from_numpy(column("level", 0.0).astype(np.int64)),
        clicked=number(column("clicked", 0.0)),
        v=number(np.log1p(units)),
        weight=number(column("weight", 1.0) * column("balancing_weight", 1.0)),
    )


class EventHistory:
    """The events of all accounts in order, so that the latest before any instant are found in O(log events).

    Args:
        behaviours: account_id, level (number of the offer), action, ts.
        levels: how many offers there are.

    Raises:
        InvalidInput: a column is missing, an action is unknown, or a level out of range.
    """

    def __init__(self, behaviours: pd.DataFrame, levels: int) -> None:
        for column in BEHAVIOUR_COLUMNS:
            missing = f"needs the columns {list(BEHAVIOUR_COLUMNS)}; {column!r} is missing"
            require(column in behaviours, "behaviours", missing)
        action = pd.Index(ACTIONS).get_indexer(pd.Index(behaviours["action"]))
        level = behaviours["level"].to_numpy(dtype=np.int64)
        refuse_rows("behaviours", action < 0, f"action must be one of {list(ACTIONS)}")
        refuse_rows("behaviours", (level < 0) | (level >= levels), f"level must be 0 to {levels - 1}")
        seconds = np.floor(unix_seconds(behaviours["ts"])).astype(np.int64)
        self._first = int(seconds.min()) if seconds.size else 0
        self._span = int(seconds.max()) - self._first + 2 if seconds.size else 2
        code, self._accounts = pd.factorize(behaviours["account_id"].astype(str), sort=True)
        key = code * self._span + (seconds - self._first)
        order = np.lexsort((action, level, key))
        self._key, self._level, self._action, self._at = (values[order] for values in (key, level, action, seconds))

    def before(self, account_id: pd.Series, at: NDArray[np.float64]) -> Behaviours:
        """The latest events of each account (n,) before its instant ``at`` (n,), unix seconds."""
        code = self._accounts.get_indexer(pd.Index(account_id.astype(str))).astype(np.int64)
        own = np.maximum(code, 0) * self._span
        until = np.clip(np.ceil(at - self._first), 0, self._span - 1).astype(np.int64)
        start, end = np.searchsorted(self._key, own), np.searchsorted(self._key, own + until)
        index = end[:, None] - 1 - np.arange(MOST_EVENTS)
        there = (index >= start[:, None]) & (code >= 0)[:, None]
        index = np.where(there, index, 0)
        if not self._key.size:
            nothing = np.zeros(index.shape, dtype=np.int64)
            return _tensors(nothing, nothing, nothing.astype(np.float64), there)
        days = np.maximum(at[:, None] - self._at[index], 0.0) / SECONDS_PER_DAY
        return _tensors(
            np.where(there, self._level[index], 0), np.where(there, self._action[index], 0), np.log1p(days), there
        )


def unix_seconds(times: pd.Series) -> NDArray[np.float64]:
    """Unix seconds of UTC times."""
    return np.asarray(times.dt.as_unit("us").astype(np.int64).to_numpy() / 1e6, dtype=np.float64)


def check_instants(frame: pd.DataFrame) -> None:
    """Refuse rows without an instant: their behaviour and their graph would hold the purchase to be predicted."""
    missing = (
        "is missing: a row reads behaviour and graph as they were before it; give the unix seconds at which each "
        "delivery was decided"
    )
    require("snapshot_at" in frame, "snapshot_at", missing)
    unknown = ~np.isfinite(frame["snapshot_at"].to_numpy(dtype=np.float64, na_value=np.nan))
    refuse_rows("snapshot_at", unknown, "must be known and finite, unix seconds")


def check_outcomes(frame: pd.DataFrame, *, amounts: bool, model: str) -> None:
    """Refuse clicks and amounts that cannot be, and a frame without amounts for a model that learns from them."""
    bought = frame["response"].to_numpy(dtype=np.float64) == 1
    if "clicked" in frame:
        clicked = frame["clicked"].to_numpy(dtype=np.float64)
        refuse_rows("clicked", ~np.isin(clicked, (0.0, 1.0)), "must be 0 or 1")
        refuse_rows("clicked", bought & (clicked == 0), "must be 1 where the row converted")
    if "amount" in frame:
        amount = frame["amount"].to_numpy(dtype=np.float64)
        refuse_rows("amount", ~np.isfinite(amount), "must be known and finite")
        refuse_rows("amount", (amount > 0) != bought, "must be above 0 exactly where the row converted")
    missing = (
        f"is missing: {model!r} learns the amount of a conversion; give the minor units of every row, 0 where "
        "nothing was bought"
    )
    require("amount" in frame or not amounts, "amount", missing)


def _tensors(
    level: NDArray[np.int64], action: NDArray[np.int64], ago: NDArray[np.float64], there: NDArray[np.bool_]
) -> Behaviours:
    return Behaviours(
        torch.from_numpy(level),
        torch.from_numpy(action),
        torch.from_numpy(np.where(there, ago, 0.0).astype(np.float32)),
        torch.from_numpy(there),
    )


def held_out_rows(frame: pd.DataFrame, seed: int) -> NDArray[np.bool_]:
    """(n,): rows of the accounts held out; at least one account, and never all of them."""
    accounts, of = np.unique(frame["account_id"].to_numpy(dtype=str), return_inverse=True)
    held = np.random.default_rng(seed).random(accounts.size) < HELD_OUT
    held[0] |= not held.any()
    if held.all() and held.size > 1:
        held[-1] = False
    return np.asarray(held[of] if accounts.size > 1 else np.zeros(of.size, dtype=bool))
