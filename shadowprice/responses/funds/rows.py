"""Inputs of the models of funds: labelled deliveries and the behaviour before each, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.encoders.behaviour import Behaviours
from shadowprice.errors import InvalidInput
from shadowprice.tables.schema import ACTIONS

MOST_EVENTS = 12
"""Latest events of an account that are read."""
SECONDS_PER_DAY = 86_400.0
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
        return FundRows(
            numeric=self.numeric[index],
            category=self.category[index],
            events=None if self.events is None else self.events.take(index),
            node=None if self.node is None else self.node[index],
            level=self.level[index],
            clicked=self.clicked[index],
            v=self.v[index],
            weight=self.weight[index],
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
            if column not in behaviours:
                raise InvalidInput(
                    f"needs the columns {list(BEHAVIOUR_COLUMNS)}; {column!r} is missing", field="behaviours"
                )
        action = pd.Index(ACTIONS).get_indexer(pd.Index(behaviours["action"]))
        level = behaviours["level"].to_numpy(dtype=np.int64)
        for column, wrong in (("action", action < 0), ("level", (level < 0) | (level >= levels))):
            if wrong.any():
                allowed = f"one of {list(ACTIONS)}" if column == "action" else f"0 to {levels - 1}"
                raise InvalidInput(
                    f"{column} must be {allowed}", field="behaviours", rows=np.flatnonzero(wrong)[:5].tolist()
                )
        seconds = np.floor(unix_seconds(behaviours["ts"])).astype(np.int64)
        self._first = int(seconds.min()) if seconds.size else 0
        self._span = int(seconds.max()) - self._first + 2 if seconds.size else 2
        code, self._accounts = pd.factorize(behaviours["account_id"].astype(str), sort=True)
        key = code * self._span + (seconds - self._first)
        order = np.lexsort((action, level, key))
        self._key, self._level, self._action, self._at = (each[order] for each in (key, level, action, seconds))

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
    if "snapshot_at" not in frame:
        raise InvalidInput(
            "is missing: a row reads behaviour and graph as they were before it; give the unix seconds at which each "
            "delivery was decided",
            field="snapshot_at",
        )
    unknown = ~np.isfinite(frame["snapshot_at"].to_numpy(dtype=np.float64, na_value=np.nan))
    if unknown.any():
        raise InvalidInput(
            "must be known and finite, unix seconds", field="snapshot_at", rows=np.flatnonzero(unknown)[:5].tolist()
        )


def check_outcomes(frame: pd.DataFrame, *, amounts: bool, model: str) -> None:
    """Refuse clicks and amounts that cannot be, and a frame without amounts for a model that learns from them."""
    bought = frame["response"].to_numpy(dtype=np.float64) == 1

    def refuse(field: str, wrong: NDArray[np.bool_], message: str) -> None:
        if wrong.any():
            raise InvalidInput(message, field=field, rows=np.flatnonzero(wrong)[:5].tolist())

    if "clicked" in frame:
        clicked = frame["clicked"].to_numpy(dtype=np.float64)
        refuse("clicked", ~np.isin(clicked, (0.0, 1.0)), "must be 0 or 1")
        refuse("clicked", bought & (clicked == 0), "must be 1 where the row converted")
    if "amount" in frame:
        amount = frame["amount"].to_numpy(dtype=np.float64)
        refuse("amount", ~np.isfinite(amount), "must be known and finite")
        refuse("amount", (amount > 0) != bought, "must be above 0 exactly where the row converted")
    elif amounts:
        raise InvalidInput(
            f"is missing: {model!r} learns the amount of a conversion; give the minor units of every row, 0 where "
            "nothing was bought",
            field="amount",
        )


def _tensors(
    level: NDArray[np.int64], action: NDArray[np.int64], ago: NDArray[np.float64], there: NDArray[np.bool_]
) -> Behaviours:
    return Behaviours(
        torch.from_numpy(level),
        torch.from_numpy(action),
        torch.from_numpy(np.where(there, ago, 0.0).astype(np.float32)),
        torch.from_numpy(there),
    )
