"""Flat policy as a response model: one curve for all accounts, so that one price decides alike for everybody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.statistics.windows import weeks
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.shares import shares
from shadowprice.evaluation.uplift.slope import slope_over_windows
from shadowprice.graphs.partners import row_partners
from shadowprice.responses.base import ResponseModel, labels
from shadowprice.responses.repair.effect import cell_names
from shadowprice.responses.repair.repair import pava
from shadowprice.responses.state import State
from shadowprice.responses.weights import given_weights


def shown_means(found: SideEvidence, rows: LevelMeans) -> Array:
    """Return the mean response (J,) of each level as far as the trial shows that it differs from the lowest one.

    Args:
        found: evidence of one side.
        rows: that it was found in.

    Ordered levels have the isotonic regression of their means, by effective rows, where the effect is identified. A
    level without an order has its own mean where it surely differs from the lowest level. All others have the mean of
    the lowest level: an effect that is not shown does not count. A level without rows counts as the one below it.

    O(J²). Source: Barlow, Bartholomew, Bremner and Brunk (1972) for the regression.
    """
    means = np.array([measured.response.value for measured in found.levels])
    # A level whose rows are of one account is compared with no other.
    known = np.flatnonzero((rows.groups > 1) & np.isfinite(means))
    if not known.size:
        known = np.flatnonzero(np.isfinite(means))[:1]
    kept = np.full(known.size, means[known[0]])
    if found.ordered and found.verdict == "identified":
        kept = pava(means[known], rows.effective[known])
    elif not found.ordered:
        shown = np.array([found.levels[level].surely != 0 for level in known])
        kept[shown] = means[known[shown]]
    place = np.searchsorted(known, np.arange(means.size), side="right") - 1
    return np.asarray(kept[np.maximum(place, 0)])


class FlatModel(ResponseModel):
    """Mean response by level, kept to the effects that the rows show (:func:`shown_means`).

    Its dual price with the tie share is the best flat mixture of levels within the budget: the same chances for every
    account. Where the rows show no effect the curve is flat and everybody gets the level that costs least. The last
    snapshot has the main partners of accounts: rows of one partner depend on each other.

    side         whose responses they are
    unordered    sides whose levels have no order, although their numbers ascend
    confounders  side → columns whose cells hold the reasons for a level fixed; the curve then rises by the slope within
                 cells over weeks where that is identified, through the mean response

    Complexity: O(rows · log rows).
    """

    ordered = False
    personal = False
    sides = ("customer", "merchant")

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        side: Side = "customer",
        confounders: Mapping[Side, Sequence[str]] | None = None,
        unordered: Sequence[Side] = (),
    ) -> None:
        super().__init__(levels, seed)
        self.side = side
        self.confounders = tuple((confounders or {}).get(side, ()))
        self.rising = side not in unordered and bool(np.all(np.diff(self.levels) > 0))
        self.mean: NDArray[np.float64] | None = None

    def fit(self, frame: pd.DataFrame) -> Self:
        """Average the response by level; a level counts above the lowest only by an effect that the rows show."""
        self.check_frame(frame)
        level, response = labels(frame)
        if self.confounders:
            self.mean = self._within_cells(frame, level, response)
            return self
        if self.levels.size < 2:
            self.mean = np.array([np.average(response, weights=given_weights(frame))])
            return self
        account = row_clusters(frame)
        partner = row_partners(frame, self.side, self.given.snapshots)
        weighted = "balancing_weight" in frame
        planned = shares(level, _propensity(frame, level), self.levels.size, account)
        weight = given_weights(frame)
        if planned.drawn and not planned.uniform and not weighted:
            weight = weight / frame["propensity"].to_numpy(dtype=np.float64)
        rows = LevelMeans(level, self.levels.size, weight=weight, account=account, partner=partner)
        evidence = side_evidence(
            self.side,
            self.levels,
            rows,
            response,
            np.zeros(response.size),
            replace(planned, drawn=planned.drawn or weighted),
            ordered=self.rising,
        )
        self.mean = shown_means(evidence, rows)
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Return the same curve for each row."""
        mean = self._fitted().astype(np.float32)
        return Curves(self.levels, np.ascontiguousarray(np.repeat(mean[:, None], len(frame), axis=1)))

    def state(self) -> State:
        """Return the means."""
        return State({"mean": self._fitted()}, {})

    def restore(self, state: State) -> None:
        """Read the means."""
        self.mean = state.arrays["mean"]

    def _fitted(self) -> NDArray[np.float64]:
        if self.mean is None:
            raise InvalidInput("is not fitted; call fit first", field="model")
        return self.mean

    def _within_cells(
        self, frame: pd.DataFrame, level: NDArray[np.int64], response: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Rise by the slope within cells where it is identified; levels that had reasons have no means to compare."""
        mean, amounts = float(np.average(response, weights=given_weights(frame))), self.levels.astype(np.float64)
        try:
            cells: list[ArrayLike] = [cell_names(frame, self.confounders)]
            slope, _ = slope_over_windows(response, amounts[level], cells, weeks(frame["snapshot_at"]))
        except InvalidInput:
            return np.full(amounts.size, mean)
        rise = slope.value if slope.identified else 0.0
        estimate = mean + rise * (amounts - amounts[level].mean())
        return np.asarray(np.clip(estimate, 0.0, 1.0 if self.side == "customer" else np.inf))


def _propensity(frame: pd.DataFrame, level: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability of each row's level; its share of the rows where none is known."""
    if "propensity" in frame and frame["propensity"].notna().all():
        return frame["propensity"].to_numpy(dtype=np.float64)
    return np.asarray((np.bincount(level) / level.size)[level])
