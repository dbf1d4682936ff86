"""Lift by segment, with p-values that allow for the number of segments."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.lifts import Lift, lift

Correction = Literal["holm", "fdr_bh"]


@dataclass(frozen=True)
class SegmentLift:
    """Lift in one segment.

    p_value   of no incremental value there
    adjusted  p-value adjusted for the number of segments
    """

    segment: str
    lift: Lift
    p_value: float
    adjusted: float


@dataclass(frozen=True)
class Heterogeneity:
    """Lift of one arm in each segment.

    different  p-value of the hypothesis that the incremental value is the same in all segments; NaN for a single one
    """

    segments: tuple[SegmentLift, ...]
    different: float


def by_segment(
    frame: pd.DataFrame,
    baseline: str,
    arm: str,
    assigned: pd.DataFrame,
    segment: str,
    *,
    columns: Columns | None = None,
    correction: Correction = "holm",
    level: float = 0.95,
) -> Heterogeneity:
    """Estimate the lift of an arm in each segment.

    Args:
        frame, baseline, columns, level: as of :func:`~shadowprice.experiments.lift`.
        arm: compared with the baseline.
        assigned: as of :func:`~shadowprice.experiments.lift`, a list with the segment of each account. Requests of
            accounts that are not in it are left out where their segment is none of the list.
        segment: column with a property of the unit that the arm cannot have changed; a unit is in one segment.
        correction: ``holm``: the probability of any false discovery is bounded; ``fdr_bh``: the expected share of false
            ones among the discoveries (Benjamini and Hochberg 1995).

    The segments share no units, so that their estimates are independent. Equality is tested by Cochran's Q.

    Raises:
        InvalidInput: a unit in two segments, or a segment without one of the arms.
    """
    named = columns or Columns()
    named.check(frame, segment)
    require(segment in assigned, "assigned", f"needs a list of the assigned accounts with column {segment!r}")
    twice = frame.groupby(named.unit)[segment].nunique()
    if (twice > 1).any():
        raise InvalidInput(f"differs within {named.unit} {twice.index[twice > 1][0]!r}", field=segment)
    text, listed = frame[segment].astype(str), assigned[segment].astype(str)
    names = sorted(set(listed))
    lifts = [
        lift(frame[text == name], baseline, assigned[listed == name], columns=named, arms=[arm], level=level)[0]
        for name in names
    ]
    values, errors = (np.array([getattr(own.value, part) for own in lifts]) for part in ("value", "error"))
    p_values = [own.value.p_value for own in lifts]
    sound = np.isfinite(p_values)
    adjusted = np.full(len(lifts), np.nan)
    different = float("nan")
    if sound.any():
        # Imported here: statsmodels takes a second, which steps and services without segments would wait for.
        from statsmodels.stats.multitest import multipletests

        adjusted[sound] = multipletests(np.array(p_values)[sound], method=correction)[1]
    if np.count_nonzero(sound) > 1:
        weight = 1.0 / errors[sound] ** 2
        mean = float(weight @ values[sound] / weight.sum())
        different = float(special.chdtrc(np.count_nonzero(sound) - 1, weight @ (values[sound] - mean) ** 2))
    pieces = zip(names, lifts, p_values, adjusted.tolist(), strict=True)
    return Heterogeneity(tuple(SegmentLift(*piece) for piece in pieces), different)
