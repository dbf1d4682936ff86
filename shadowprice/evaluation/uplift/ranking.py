"""Metrics of how a score ranks rows of a randomized trial with two arms by their treatment effect.

``y`` (N,) response, ``score`` (N,) predicted effect (any order-preserving number), ``treatment``
(N,) 1 where the row was treated and 0 where it was not. Rows of equal score enter together.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_binary, metric, ratio

ROUNDING = 1e-9
"""Share of the largest score that rounding may change: scores that are nearer to each other are ties."""


@metric
def auuc(y: Array, score: Array, treatment: Array) -> Statistic:
    """Area under the uplift curve: responses gained per row when the best-scored share is treated, over all shares.

    At each share of the rows the curve is (mean response of the treated − of the others) among the
    chosen × the share; a random score has half the average effect. NaN when an arm is empty.
    O(N log N). Source: Rzepakowski and Jaroszewicz (2010); the curve of Gutierrez and Gérardy (2017), eq. 12.
    """
    curve = _curves(score, is_treated(treatment), y)

    def statistic(weight: Array) -> Array:
        treated, control, gained, lost = curve(weight)
        total = treated + control
        height = (_or_zero(gained, treated) - _or_zero(lost, control)) * total
        return _defined(_area(total, height) / total[:, -1] ** 2, treated, control)

    return statistic


@metric
def qini(y: Array, score: Array, treatment: Array) -> Statistic:
    """Qini coefficient: area between the Qini curve and that of a random score, over the same of a perfect one.

    The curve is the treated responses − the others' × (treated / others) among the best-scored. A
    perfect score treats responders first and leaves responders of the control arm to the end, so it
    may use sleeping dogs. 1 is perfect, 0 random. NaN when an arm is empty or has no response.
    ``y`` in {0, 1} or non-negative. O(N log N). Source: Radcliffe (2007).
    """
    arm = is_treated(treatment)
    InvalidInput.refuse_rows(y < 0, "must not be negative", field="y")
    curve, best = _curves(score, arm, y), _curves(np.where(arm, y, -y), arm, y)

    def above_random(weight: Array, curves: Callable[[Array], tuple[Array, ...]]) -> Array:
        treated, control, gained, lost = curves(weight)
        total = treated + control
        height = gained - lost * _or_zero(treated, control)
        return _area(total, height) - 0.5 * total[:, -1] * height[:, -1]

    def statistic(weight: Array) -> Array:
        treated, control, _, _ = curve(weight)
        return _defined(ratio(above_random(weight, curve), above_random(weight, best)), treated, control)

    return statistic


@metric
def lift(y: Array, score: Array, treatment: Array, *, share: float = 0.3) -> Statistic:
    """Treatment effect among the best-scored ``share`` of the rows (LIFT@30 at 0.3).

    Mean response of the treated less that of the others among them. Rows that tie at the edge enter
    in part. NaN when either arm has no row there. O(N log N).
    """
    require(0 < share <= 1, "share", "must lie in (0, 1]")
    curve = _curves(score, is_treated(treatment), y)

    def statistic(weight: Array) -> Array:
        at = _at_shares(curve(weight), np.array([share]))
        treated, control, gained, lost = (column[:, 0] for column in at)
        return ratio(gained, treated) - ratio(lost, control)

    return statistic


@metric
def wau(y: Array, score: Array, treatment: Array, *, bins: int = 10) -> Statistic:
    """Weighted average uplift: the effect within equally filled ranges of the score, weighted by their treated rows.

    Ranges in which either arm has no row are left out. O(N log N).
    """
    require(bins >= 1, "bins", "must be at least 1")
    curve = _curves(score, is_treated(treatment), y)

    def statistic(weight: Array) -> Array:
        at = _at_shares(curve(weight), np.arange(bins + 1) / bins)
        treated, control, gained, lost = (np.diff(column, axis=1) for column in at)
        held = (treated > 1e-9) & (control > 1e-9)
        effect = np.where(held, _or_zero(gained, treated) - _or_zero(lost, control), 0.0)
        return ratio((treated * effect).sum(axis=1), (treated * held).sum(axis=1))

    return statistic


def is_treated(treatment: Array) -> NDArray[np.bool_]:
    """Arms (N,) as booleans, refused unless each is 0 or 1."""
    return as_binary(treatment, "treatment")


def in_groups(score: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of falling scores, and the place in it of the last row of each group of equal scores.

    Scores that differ by less than :data:`ROUNDING` of the largest one count as equal.
    """
    order = np.argsort(-score, kind="stable")
    finite = np.abs(score[np.isfinite(score)])
    apart = -np.diff(score[order]) > ROUNDING * finite.max(initial=0.0)
    return order, np.flatnonzero(np.r_[apart, True])


def _curves(score: Array, arm: NDArray[np.bool_], y: Array) -> Callable[[Array], tuple[Array, ...]]:
    """Weights (B, N) → cumulative treated rows, other rows, treated responses, others' responses, each (B, G+1)."""
    order, ends = in_groups(score)
    columns = [np.where(arm, 1.0, 0.0), np.where(arm, 0.0, 1.0), np.where(arm, y, 0.0), np.where(arm, 0.0, y)]
    ordered = [column[order] for column in columns]

    def cumulative(weight: Array) -> tuple[Array, ...]:
        drawn = weight[:, order]
        start = np.zeros((len(weight), 1))
        return tuple(np.hstack([start, np.cumsum(drawn * column, axis=1)[:, ends]]) for column in ordered)

    return cumulative


def _at_shares(curves: tuple[Array, ...], shares: Array) -> list[Array]:
    """The cumulative columns where the rows reach each share, interpolated within a tie: (B, S) each."""
    total = curves[0] + curves[1]
    wanted = shares * total[:, -1:]
    parts = [np.empty((len(total), shares.size)) for _ in curves]
    for b in range(len(total)):
        for out, column in zip(parts, curves, strict=True):
            out[b] = np.interp(wanted[b], total[b], column[b])
    return parts


def _area(x: Array, height: Array) -> Array:
    return np.asarray((np.diff(x, axis=1) * (height[:, 1:] + height[:, :-1])).sum(axis=1) / 2)


def _or_zero(numerator: Array, denominator: Array) -> Array:
    return np.nan_to_num(ratio(numerator, denominator), nan=0.0)


def _defined(value: Array, treated: Array, control: Array) -> Array:
    return np.where((treated[:, -1] > 0) & (control[:, -1] > 0), value, np.nan)
