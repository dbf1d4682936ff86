"""Requests, responses and money of a window by side, segment, hour and level."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.pacing.replay.outcomes import NamedCurves, Outcomes

FILE = "who_got_what.csv"
"""Name of the table beside the report."""
OTHERS = "not known"
"""Segment of an account that is not in the table of segments."""
KEYS = ["side", "segment", "hour", "level"]
MOST_SEGMENTS = 12

Segments = Mapping[Side, Mapping[str, str]]
"""side → account → segment."""


@dataclass(frozen=True, eq=False)
class Mix:
    """Sums of M cells; every cell is one side, segment, hour and level that some request had.

    side, segment  str (M,)
    hour           int64 (M,), since the window opened
    level          int64 (M,), index of the level; −1 where no incentive was given
    incentive      int64 (M,), minor units offered
    requests       int64 (M,)
    responses      float64 (M,), in the unit of the side
    cost           int64 (M,), minor units paid
    """

    side: NDArray[np.str_]
    segment: NDArray[np.str_]
    hour: NDArray[np.int64]
    level: NDArray[np.int64]
    incentive: NDArray[np.int64]
    requests: NDArray[np.int64]
    responses: NDArray[np.float64]
    cost: NDArray[np.int64]

    def frame(self) -> pd.DataFrame:
        """One row per cell."""
        return pd.DataFrame({field.name: getattr(self, field.name) for field in fields(self)})

    def sides(self) -> list[str]:
        """Sides that had requests."""
        return list(dict.fromkeys(self.side.tolist()))

    def by(self, side: str, *names: str) -> pd.DataFrame:
        """Sums of a side over the cells that agree in ``names``: columns of :data:`KEYS`, or ``incentive``."""
        own = self.frame()[self.side == side]
        return pd.DataFrame(own.groupby([*names], as_index=False)[["requests", "responses", "cost"]].sum())


def mix_of(campaign: Campaign, outcomes: Outcomes, segments: Segments | None = None) -> Mix:
    """Sum outcomes by side, segment, hour and level. O(N log N)."""
    named = segments or {}
    segment = np.full(len(outcomes), "all", dtype=object)
    for side in campaign.sides:
        mine = outcomes.side == side
        if side in named:
            segment[mine] = [named[side].get(account, OTHERS) for account in outcomes.account_id[mine].tolist()]
    rows = pd.DataFrame(
        {
            "side": outcomes.side,
            "segment": segment,
            "hour": outcomes.at.astype(np.int64),
            "level": outcomes.level.astype(np.int64),
            "incentive": outcomes.incentive,
            "requests": 1,
            "responses": outcomes.response,
            "cost": outcomes.cost,
        }
    )
    sums = rows.groupby([*KEYS, "incentive"], as_index=False)[["requests", "responses", "cost"]].sum()
    return Mix(
        **{name: sums[name].to_numpy(dtype=str) for name in ("side", "segment")},
        **{name: sums[name].to_numpy(dtype=np.int64) for name in ("hour", "level", "incentive", "requests", "cost")},
        responses=sums["responses"].to_numpy(dtype=np.float64),
    )


def write_mix(mix: Mix, path: str | os.PathLike[str]) -> Path:
    """Write :func:`mix_csv` to a file, whole or not at all."""
    return write_whole(path, mix_csv(mix))


def mix_csv(mix: Mix) -> str:
    """One row per cell as CSV; money is in whole minor units, so that its sums are exact."""
    named = mix.frame().rename(columns={"incentive": "incentive_minor_units", "cost": "paid_minor_units"})
    named["level"] = named["level"].mask(named["level"] == NOTHING, pd.NA).astype("Int64")
    return str(named.to_csv(index=False))


def segments_of(accounts: pd.DataFrame, model: Mapping[Side, NamedCurves]) -> Segments:
    """Segments of the accounts of a model.

    They are the values of the first ``c_*`` column of a side with 2 to :data:`MOST_SEGMENTS` values, as its newest
    snapshot has them; without such a column, thirds of the accounts by the model's response at the lowest level.

    Args:
        accounts: the account table.
        model: side → curves of its accounts.
    """
    names_of: dict[Side, Mapping[str, str]] = {}
    for side, who in model.items():
        own = accounts[accounts["side"] == side].sort_values("snapshot_ts").drop_duplicates("account_id", keep="last")
        column = next((c for c in own.columns if c.startswith("c_") and 2 <= own[c].nunique() <= MOST_SEGMENTS), None)
        if column is None:
            names = thirds(who.curves.response[0])
            names_of[side] = dict(zip(who.account_id.tolist(), names.tolist(), strict=True))
        else:
            known = own[own[column].notna()]
            values = column.removeprefix("c_") + " " + known[column].astype(str)
            names_of[side] = dict(zip(known["account_id"].astype(str), values, strict=True))
    return names_of


def thirds(response: NDArray[np.float32]) -> NDArray[np.str_]:
    """(N,): third that an account is in by a response of its curve; equal ones stay together.

    Raises:
        InvalidInput: no accounts.
    """
    if not response.size:
        raise InvalidInput("has no accounts", field="response")
    edges = np.quantile(response, [1 / 3, 2 / 3])
    return np.array(["least responsive", "middle", "most responsive"])[np.searchsorted(edges, response)]
