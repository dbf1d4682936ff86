"""Mean responses by level, kept to the effects that a trial shows."""

from __future__ import annotations

import numpy as np

from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.responses.repair.repair import pava


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
    means = np.array([each.response.value for each in found.levels])
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
