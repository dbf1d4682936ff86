"""The randomized trial of the generated data set ``world``: requests of both sides and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.datasets.world.context import CHANNELS, RequestContext
from shadowprice.datasets.world.graph import WorldGraph, of_sides, slices
from shadowprice.datasets.world.responses import CUSTOMER_LEVELS, MERCHANT_LEVELS, spilled

HOURLY_SHAPE = np.array([5, 3, 2, 2, 2, 3, 6, 10, 14, 17, 20, 24, 26, 24, 21, 20, 20, 22, 25, 27, 25, 19, 12, 7], float)
"""Relative arrivals by hour of the day (UTC)."""

TRIAL_START = datetime(2026, 3, 2, tzinfo=UTC)
TRIAL_DAYS = 2

PART = 1 << 19
"""Rows of a table that are made at once."""


@dataclass(frozen=True)
class Assignment:
    """Requests of one side: which account of the side, its node, the level it was offered, and when."""

    row: NDArray[np.int32]
    node: NDArray[np.int32]
    level: NDArray[np.int8]
    seconds: NDArray[np.int32]
    arm: NDArray[np.float64]


def assign(
    nodes: NDArray[np.intp],
    levels: tuple[int, ...],
    trials: int,
    profile: NDArray[np.float64],
    random: np.random.Generator,
) -> Assignment:
    """Draw ``trials`` requests of each account: their levels, and their times by the day's profile (24,)."""
    row = np.repeat(np.arange(nodes.size, dtype=np.int32), trials)
    # Dear arms are drawn less often, as a platform that pays for its trial would have it.
    arm = np.linspace(1.3, 0.7, len(levels))
    arm /= arm.sum()
    level = random.choice(len(levels), size=row.size, p=arm).astype(np.int8)
    seconds = random.integers(0, TRIAL_DAYS, size=row.size).astype(np.int32) * 86_400
    seconds += random.choice(24, size=row.size, p=profile).astype(np.int32) * 3600
    seconds += random.integers(0, 3600, size=row.size).astype(np.int32)
    return Assignment(row, nodes[row].astype(np.int32), level, seconds, arm)


def expected(truth: NDArray[np.float64], trial: Assignment) -> NDArray[np.float64]:
    """(n,): true response of each request, from that of the accounts of its side (J, N)."""
    response = np.empty(trial.row.size)
    for part in slices(trial.row.size, PART):
        response[part] = truth[trial.level[part], trial.row[part]]
    return response


@dataclass(frozen=True)
class TrialRows:
    """Requests of a trial and their outcomes as rows of tables: those of the customers, then those of the merchants."""

    ids: NDArray[np.str_]
    customers: Assignment
    merchants: Assignment
    redeemed: NDArray[np.bool_]
    shares: NDArray[np.int64]
    before: NDArray[np.int64]
    context: RequestContext | None = None

    @property
    def size(self) -> int:
        """Number of requests."""
        return self.redeemed.size + self.shares.size

    def exposure(self, part: slice) -> pd.DataFrame:
        """Rows of the exposure table."""
        return self._of_sides(part, self._exposure)

    def outcome(self, part: slice) -> pd.DataFrame:
        """Rows of the outcome table."""
        return self._of_sides(part, self._outcome)

    def _of_sides(self, part: slice, rows: Callable[[str, slice], pd.DataFrame]) -> pd.DataFrame:
        own = of_sides(part, self.redeemed.size)
        return pd.concat([rows(side, block) for side, block in own], ignore_index=True)

    def _request_id(self, side: str, part: slice) -> list[str]:
        return [f"trial-{side}-{number:07d}" for number in range(part.start, part.stop)]

    def _decided_at(self, side: str, part: slice) -> pd.Series[Any]:
        trial = self.customers if side == "customer" else self.merchants
        return pd.Series(pd.Timestamp(TRIAL_START) + pd.to_timedelta(trial.seconds[part] + 1, unit="s"))

    def _exposure(self, side: str, part: slice) -> pd.DataFrame:
        trial, kind, levels = (
            (self.customers, "coupon", CUSTOMER_LEVELS)
            if side == "customer"
            else (self.merchants, "commission", MERCHANT_LEVELS)
        )
        rows = pd.DataFrame(
            {
                "request_id": self._request_id(side, part),
                "account_id": self.ids[trial.node[part]],
                "side": side,
                "offer_id": np.array([f"{kind}-{level}" for level in levels], dtype=object)[trial.level[part]],
                "decided_at": self._decided_at(side, part),
                "propensity": trial.arm[trial.level[part]],
                "policy_version": "trial",
                "exploration": True,
            }
        )
        return rows if self.context is None else rows.assign(**self._context(self.context, side, part))

    def _context(self, context: RequestContext, side: str, part: slice) -> dict[str, Any]:
        """Columns of the requests' context; merchants have none."""
        if side == "merchant":
            rows = part.stop - part.start
            empty = pd.Series([None] * rows, dtype=object)
            return {"partner_id": empty, "x_basket": np.full(rows, np.nan), "c_channel": empty}
        partner = context.partner[part]
        named = self.ids[partner].astype(object)
        named[partner < 0] = None
        return {
            "partner_id": named,
            "x_basket": context.basket[part],
            "c_channel": np.array(CHANNELS, dtype=object)[context.channel[part]],
        }

    def _outcome(self, side: str, part: slice) -> pd.DataFrame:
        unknown = pd.array([pd.NA] * (part.stop - part.start), dtype="Int64")
        if side == "customer":
            paid = np.asarray(CUSTOMER_LEVELS)[self.customers.level[part]] * self.redeemed[part]
            redeemed, shares, before = pd.array(self.redeemed[part].astype(int), dtype="Int64"), unknown, unknown
        else:
            paid = np.asarray(MERCHANT_LEVELS)[self.merchants.level[part]]
            redeemed = unknown
            shares, before = (pd.array(column[part], dtype="Int64") for column in (self.shares, self.before))
        return pd.DataFrame(
            {
                "request_id": self._request_id(side, part),
                "observed_at": self._decided_at(side, part) + pd.Timedelta(days=3),
                "mature": True,
                "cost_paid": paid.astype(np.int64),
                "redeemed": redeemed,
                "share_count": shares,
                "share_count_before": before,
            }
        )


def spill(
    mean: NDArray[np.float64],
    customers: Assignment,
    merchants: Assignment,
    graph: WorldGraph,
) -> NDArray[np.float64]:
    """Redemption probability moved by the commissions that the customer's merchants were offered."""
    offered = np.zeros(graph.traits.shape[0])
    seen = np.zeros_like(offered)
    np.add.at(offered, merchants.node, np.asarray(MERCHANT_LEVELS, float)[merchants.level])
    np.add.at(seen, merchants.node, 1.0)
    return spilled(mean, customers.node, offered / np.maximum(seen, 1.0), graph)
