"""A model of all sides with its curves repaired, served as stored curves like any other (decision record 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.documents import Plain
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.windows import weeks
from shadowprice.evaluation.uplift.slope import NOT_IDENTIFIED, Slope, slope_over_windows
from shadowprice.files import write_whole
from shadowprice.responses.base import labels
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.heads import Head, StoredHead, curves_of
from shadowprice.responses.layers.session import ServedSession
from shadowprice.responses.repair.effect import Effect, UsualLevels, cell_names
from shadowprice.responses.repair.repair import Calibration, Repair
from shadowprice.responses.sided import REPAIRED, Embedded, SidedModel, load_sided
from shadowprice.responses.stored import as_embedding, check_width, stored_head

INNER = "inner"
STEPS = ("effect", "pooled", "by_level", "monotone")
NONE = "none"


@dataclass(frozen=True)
class RepairSteps:
    """Steps of a repair by name; they are applied in this order.

    effect       the effect of the level that labeled rows show within cells, see
                 :mod:`~shadowprice.responses.repair.effect`; flat curves where the rows do not identify it
    calibration  isotonic, one map or one per level
    project      on rising curves
    """

    effect: bool = False
    calibration: Calibration = "none"
    project: bool = False

    @classmethod
    def named(cls, name: str) -> Self:
        """From ``none`` or names joined by +, such as ``effect+pooled+monotone``."""
        steps = [] if name == NONE else name.split("+")
        unknown = [step for step in steps if step not in STEPS]
        wrong = unknown or len(set(steps)) != len(steps) or {"pooled", "by_level"} <= set(steps)
        allowed = f"{NONE!r} or of {', '.join(STEPS)} joined by '+' (pooled or by_level, not both)"
        require(not wrong, "repair", f"must be {allowed}, got {name!r}")
        by_level: Calibration = "by_level" if "by_level" in steps else "none"
        return cls("effect" in steps, "pooled" if "pooled" in steps else by_level, "monotone" in steps)

    def __bool__(self) -> bool:
        return self.effect or self.project or self.calibration != "none"


@dataclass(frozen=True, eq=False)
class SideRepair(Plain):
    """The repair of one side: the effect around the usual level, then calibration and projection.

    slope  of response in amount within cells, over windows of the rows it was fitted on; None where no cell has two
           amounts
    """

    usual: UsualLevels | None = None
    effect: Effect | None = None
    repair: Repair = field(default_factory=Repair)
    slope: Slope | None = None

    def apply(self, curves: Curves, frame: pd.DataFrame) -> Curves:
        """The repaired curves of the rows of ``frame``."""
        if self.usual is not None and self.effect is not None:
            curves = self.effect.apply(curves, self.usual(frame))
        return self.repair.apply(curves)

    @classmethod
    def fit(
        cls,
        steps: RepairSteps,
        curves_of: Callable[[pd.DataFrame], Curves],
        held_out: pd.DataFrame,
        seen: pd.DataFrame,
        confounders: Sequence[str],
        side: Side,
    ) -> Self:
        """Fit on labeled rows.

        Args:
            steps: which.
            curves_of: the model's curves of any rows.
            held_out: account_id, level, response and the confounders of rows the model was not fitted on.
            seen: the rows it was fitted on, which only the effect reads besides.
            confounders: columns whose cells hold the reasons for the level fixed, the most general first.
            side: a customer's response is a probability, a merchant's a ratio.

        The effect is 0 unless the interval of the slope over windows and cells lies above 0.
        """
        usual, effect, slope = None, None, None
        before = curves_of(held_out)
        if steps.effect:
            rows = pd.concat([seen, held_out], ignore_index=True)
            level, y = labels(rows)
            usual = UsualLevels.fit(rows, level, before.levels.size, confounders)
            slope, cell, weight = _within_cells(rows, before.levels[level], y, confounders)
            probability = side == "customer"
            effect = Effect.none(before.levels.size, probability=probability)
            if slope is not None and slope.identified:
                effect = Effect.fit(
                    curves_of(rows), level, y, usual(rows), cluster=cell, weight=weight, probability=probability
                )
        moved = cls(usual, effect).apply(before, held_out)
        level, y = labels(held_out)
        repair = Repair.fit(
            moved,
            level,
            y,
            calibration=steps.calibration,
            project=steps.project,
            account=row_clusters(held_out),
            ceiling=1.0 if side == "customer" else np.inf,
        )
        return cls(usual, effect, repair, slope)

    def describe(self) -> dict[str, Any]:
        """Describe the repair as JSON types, without tables."""
        effect = {} if self.effect is None else {"effect": {**self.effect.to_dict(), **_told(self.slope)}}
        return {**effect, **self.repair.notes, "maps": len(self.repair.maps), "monotone": self.repair.project}


def _within_cells(
    rows: pd.DataFrame, amount: NDArray[np.int64], y: NDArray[np.float64], confounders: Sequence[str]
) -> tuple[Slope | None, NDArray[np.object_], NDArray[np.float64]]:
    """Slope over weeks, the group whose rows share an error, and the weight (n,) of each row in the slope.

    Without confounders all rows are one cell, and accounts are the groups.
    """
    group = cell_names(rows, confounders) if confounders else row_clusters(rows).astype(object)
    cell = group if confounders else np.zeros(len(rows), dtype=np.int64)
    window = weeks(rows["snapshot_at"]) if "snapshot_at" in rows else np.zeros(len(rows), dtype=np.int64)
    try:
        slope, weight = slope_over_windows(y, amount, [cell], window, cluster=group)
    except InvalidInput:
        # No cell has two amounts: nothing to learn an effect from.
        return None, group, np.zeros(len(rows))
    return slope, group, weight


def _told(slope: Slope | None) -> dict[str, Any]:
    if slope is None or not slope.identified:
        return {"identified": False, "note": NOT_IDENTIFIED}
    return {"identified": True, "slope": slope.value, "low": slope.low, "high": slope.high}


class RepairedModel(SidedModel):
    """Any model of all sides with a repair per side; a side without one is served as before."""

    def __init__(self, inner: SidedModel, repairs: Mapping[Side, SideRepair]) -> None:
        for side in repairs:
            check_width(inner.levels[side], f"levels.{side}", amounts=side in inner.with_amounts)
        self.inner = inner
        self.repairs = dict(repairs)

    @property
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """Incentive levels of each side, minor units."""
        return self.inner.levels

    @property
    def with_amounts(self) -> frozenset[Side]:
        """Sides of the inner model: a repair moves no amount."""
        return self.inner.with_amounts

    def unrepaired(self) -> SidedModel:
        """The model whose curves are repaired."""
        return self.inner

    def calibrate(
        self,
        inputs: Inputs,  # noqa: ARG002 - the signature of every model
        held_out: Mapping[Side, pd.DataFrame],  # noqa: ARG002
    ) -> dict[Side, float]:
        """Refused: a repair was fitted on the calibrated curves."""
        raise InvalidInput("calibrate the model before its curves are repaired", field="model")

    def correct(self, side: Side, correction: float) -> None:  # noqa: ARG002 - the signature of every model
        """Refused: correct :meth:`unrepaired`."""
        raise InvalidInput("correct the model before its curves are repaired", field="model")

    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """The repaired curves themselves, (n, WIDTH), zeros behind the levels; the inner embedding of other sides."""
        return self._repaired(self.inner.embed(inputs, frames), frames)

    def embed_parts(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Embedded]:
        """Embeddings as :meth:`embed` gives them, and where a session moves the curve what it is read with.

        No other request moves a repaired curve.
        """
        parts = self.inner.embed_parts(inputs, frames)
        repaired = self._repaired({side: part.request for side, part in parts.items()}, frames)
        for side, part in parts.items():
            repair, tower = self.repairs.get(side, SideRepair()), part.tower
            parts[side] = Embedded(repaired[side])
            if isinstance(tower, ServedSession) and repair.effect is None and not repair.repair.project:
                parts[side] = Embedded(repaired[side], part.own, tower.repaired(repair.repair.knots()))
        return parts

    def _repaired(
        self, embedded: dict[Side, NDArray[np.float32]], frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, NDArray[np.float32]]:
        heads = self.inner.heads(embedded)
        for side, repair in self.repairs.items():
            if side not in frames:
                continue
            curves = curves_of(heads[side], embedded[side])
            embedded[side] = as_embedding(repair.apply(curves, frames[side]).response, curves.amounts)
        return embedded

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """Heads that hand the stored curve back; unknown accounts get the mean curve."""
        own = self.inner.heads({side: embedding for side, embedding in embeddings.items() if side not in self.repairs})
        stored = {side: embedding for side, embedding in embeddings.items() if side in self.repairs}
        return own | {
            side: stored_head(self.levels[side], points, amounts=side in self.with_amounts)
            for side, points in stored.items()
        }

    def describe(self) -> dict[str, Any]:
        """Describe the inner model and the repair of each side."""
        description = self.inner.describe()
        sides = {side: dict(entry) for side, entry in description["sides"].items()}
        for side, repair in self.repairs.items():
            sides[side] |= {"head": StoredHead.kind, "repair": repair.describe()}
        return {**description, "sides": sides}

    def save(self, folder: Path) -> None:
        """Write the inner model, then the repairs, so that a reader finds all or nothing."""
        self.inner.save(folder / INNER)
        write_whole(folder / REPAIRED, json.dumps({side: repair.to_dict() for side, repair in self.repairs.items()}))

    @classmethod
    def load(cls, folder: Path) -> RepairedModel:
        """Read what :meth:`save` wrote."""
        repairs = json.loads((folder / REPAIRED).read_text())
        return cls(load_sided(folder / INNER), {side: SideRepair.from_dict(repair) for side, repair in repairs.items()})
