"""Points at which the hazard rate of a population changes with the incentive's value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.evaluation.prediction.current_status import CurrentStatus
from shadowprice.evaluation.prediction.segments import HazardSegments, fit_segments


@dataclass(frozen=True)
class ChangePoints:
    """The hazard's change points and the two fits they are read from.

    at        int64 (C,), minor units: the incentive values at which the hazard rate changes
    p_value   float64 (C,), likelihood ratio of joining the two segments that meet there, χ² with
              one degree of freedom; the places were chosen on the same rows, so it is too small
    segments  the chosen fit, with C + 1 segments
    free      the fit with one segment per level, for comparison
    """

    at: NDArray[np.int64]
    p_value: NDArray[np.float64]
    segments: HazardSegments
    free: HazardSegments


def find_change_points(
    y: ArrayLike, level: ArrayLike, levels: ArrayLike, offset: ArrayLike | None = None
) -> ChangePoints:
    """Choose the segments of a piecewise constant hazard by likelihood.

    From one segment per level, the two neighbors whose joining costs the least likelihood are joined, again and again;
    the number of segments is the one with the smallest ``BIC = −2·loglik + parameters · ln rows`` (Schwarz 1978). Then,
    up to one segment more than that, each change point is moved to wherever it raises the likelihood, and the number is
    chosen again. Every candidate is refitted to its own maximum.

    Args:
        y: (N,) responses in {0, 1}.
        level: (N,) index into ``levels`` of the level given.
        levels: (J,) minor units, ascending. If 0 is one, what it earns is fitted as a base mass.
        offset: (N,) log relative hazard of the row's account according to a model, see
            :func:`~shadowprice.evaluation.prediction.likelihood.account_offset`; 0 for all when None.

    Differences between accounts that the offset leaves out make the population's hazard fall with value, which can pass
    for change points. O(J²) fits, and O(J) more for each change point of the result.
    """
    data = CurrentStatus(y, level, levels, offset)
    edges = np.unique(np.r_[0, data.levels[data.seen]])
    free = fit_segments(data, edges)
    path = [free]
    while path[-1].hazard.size > 1:
        path.append(max(_joined(data, path[-1]), key=lambda fit: fit.loglik))
    path.reverse()
    few = int(_bic(path).argmin()) + 2
    path[1:few] = [_moved(data, fit, edges) for fit in path[1:few]]
    chosen = path[int(_bic(path).argmin())]
    lost = np.array([chosen.loglik - fit.loglik for fit in _joined(data, chosen)])
    p_value = special.chdtrc(1, np.maximum(2 * lost, 0.0))
    return ChangePoints(chosen.edges[1:-1], np.asarray(p_value, dtype=np.float64), chosen, free)


def _bic(path: list[HazardSegments]) -> NDArray[np.float64]:
    return np.array([-2 * fit.loglik + fit.parameters * np.log(fit.rows) for fit in path])


def _moved(data: CurrentStatus, fit: HazardSegments, edges: NDArray[np.int64]) -> HazardSegments:
    """The fit with as many segments after moving one change point at a time for as long as that helps."""
    while True:
        unused = np.setdiff1d(edges, fit.edges)
        moves = [np.sort(np.r_[np.delete(fit.edges, s), edge]) for s in range(1, fit.hazard.size) for edge in unused]
        best = max((fit_segments(data, move) for move in moves), key=lambda moved: moved.loglik, default=fit)
        if best.loglik <= fit.loglik + 1e-6:
            return fit
        fit = best


def _joined(data: CurrentStatus, fit: HazardSegments) -> list[HazardSegments]:
    """The fits in which one inner edge of ``fit`` is gone, in the order of the edges."""
    widths = np.diff(fit.edges)
    mass = [] if fit.base_mass is None else [fit.base_mass]
    fits = []
    for s in range(fit.hazard.size - 1):
        merged = (fit.hazard[s : s + 2] @ widths[s : s + 2]) / widths[s : s + 2].sum()
        start = np.r_[mass, fit.hazard[:s], merged, fit.hazard[s + 2 :]]
        fits.append(fit_segments(data, np.delete(fit.edges, s + 1), start))
    return fits
