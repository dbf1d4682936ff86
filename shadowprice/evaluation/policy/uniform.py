"""Uniform dosing: one mixture of levels for every account of a side, the baseline of personal incentives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import Array, as_rows


@dataclass(frozen=True, eq=False)
class FlatMixture:
    """The best flat mixture within a budget.

    shares  side → (J,), probability of each level, the same for every account
    value   total value, cost  total cost, both over the requests of all sides
    """

    shares: Mapping[Side, Array]
    value: float
    cost: float


@dataclass(frozen=True, eq=False)
class FlatFrontier:
    """Most value of flat mixtures at each cost: concave, linear between its K points.

    cost, value  float64 (K,), ascending; the first point is the cheapest mixture, the last the most valuable
    shares       side → (K, J), the mixture at each point
    """

    cost: Array
    value: Array
    shares: Mapping[Side, Array]


def flat_frontier(
    value: Mapping[Side, ArrayLike], cost: Mapping[Side, ArrayLike], requests: Mapping[Side, float] | None = None
) -> FlatFrontier:
    """Return the frontier of all flat mixtures of several sides under one budget.

    Args:
        value: side → (J,), mean value of a request at each level.
        cost: side → (J,), mean cost of a request at each level, net of its allowance.
        requests: side → number of requests; 1 each by default.

    Each side contributes the upper concave envelope of its points (cost, value). The steps of all envelopes, by
    descending value per unit of cost, are the path that one price of money takes. O(Σ J log Σ J).

    Raises:
        InvalidInput: no side, or entries that are not finite or do not fit together.
    """
    if not value or set(value) != set(cost) or (requests is not None and set(requests) != set(value)):
        raise InvalidInput(f"needs the same sides as value, {sorted(value)}", field="cost")
    columns = {side: as_rows({f"value.{side}": value[side], f"cost.{side}": cost[side]}) for side in sorted(value)}
    times = {side: 1.0 if requests is None else float(requests[side]) for side in columns}
    if not all(np.isfinite(count) and count >= 0 for count in times.values()):
        raise InvalidInput("must be finite and not negative", field="requests")
    steps: list[tuple[float, Side, int, float, float]] = []
    at: dict[Side, int] = {}
    total_cost, total_value = 0.0, 0.0
    for side, (v, c) in ((side, column.values()) for side, column in columns.items()):
        hull = _envelope(v, c)
        at[side] = hull[0]
        total_cost += times[side] * c[hull[0]]
        total_value += times[side] * v[hull[0]]
        for low, high in pairwise(hull):
            gained, paid = v[high] - v[low], c[high] - c[low]
            steps.append((-gained / paid, side, high, times[side] * paid, times[side] * gained))
    costs, values, places = [total_cost], [total_value], [dict(at)]
    for _, side, level, paid, gained in sorted(steps):
        at[side] = level
        costs.append(costs[-1] + paid)
        values.append(values[-1] + gained)
        places.append(dict(at))
    shares = {
        side: np.eye(column[f"value.{side}"].size)[[place[side] for place in places]]
        for side, column in columns.items()
    }
    return FlatFrontier(np.array(costs), np.array(values), shares)


def best_flat(
    value: Mapping[Side, ArrayLike],
    cost: Mapping[Side, ArrayLike],
    limit: float,
    requests: Mapping[Side, float] | None = None,
) -> FlatMixture:
    """Return the flat mixture of the most value whose cost is at most ``limit``; arguments as :func:`flat_frontier`.

    Example:
        >>> best_flat({"customer": [0.0, 1.0]}, {"customer": [0.0, 10.0]}, limit=4.0).shares["customer"]
        array([0.6, 0.4])

    Raises:
        InvalidInput: the cheapest levels cost more than ``limit``.
    """
    path = flat_frontier(value, cost, requests)
    if limit < path.cost[0] - 1e-9 * abs(path.cost[0]):
        raise InvalidInput(f"is below {path.cost[0]:g}, what the cheapest levels cost; raise it", field="limit")
    spent = float(np.clip(limit, path.cost[0], path.cost[-1]))
    shares, _ = mixtures_at(path, np.array([spent]))
    best = float(np.interp(spent, path.cost, path.value))
    return FlatMixture({side: share[0] for side, share in shares.items()}, best, spent)


def mixtures_at(path: FlatFrontier, cost: Array) -> tuple[dict[Side, Array], Array]:
    """Return the mixtures of a frontier at costs (G,): side → shares (G, J), and the marginal value (G,) of money.

    A cost beyond an end gets the mixture of that end; money above the dearest one has no value.
    """
    if path.cost.size == 1:
        return {side: np.repeat(share, cost.size, axis=0) for side, share in path.shares.items()}, np.zeros(cost.size)
    at = np.clip(np.searchsorted(path.cost, cost, side="right") - 1, 0, path.cost.size - 2)
    step = np.diff(path.cost)[at]
    further = np.clip((cost - path.cost[at]) / step, 0.0, 1.0)[:, None]
    shares = {side: (1 - further) * share[at] + further * share[at + 1] for side, share in path.shares.items()}
    return shares, np.where(cost >= path.cost[-1], 0.0, np.diff(path.value)[at] / step)


def flat_levels(allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the level (J, N) that each row gets where a flat policy gives level j: j, or the next lower one allowed.

    Where no lower one is allowed it is the lowest that is. ``allowed`` is (J, N), with at least one level of each row.
    """
    places = np.where(allowed, np.arange(len(allowed))[:, None], -1)
    lower = np.maximum.accumulate(places, axis=0)
    return np.where(lower < 0, allowed.argmax(axis=0), lower)


def best_flat_value(
    value: Mapping[Side, Array],
    costs: Sequence[Mapping[Side, Array]],
    limits: Sequence[float],
    floors: Sequence[bool],
    requests: Mapping[Side, float],
) -> float:
    """Return the most value of a flat mixture within several budgets: a linear program with a share of each level.

    Args:
        value: side → (J,), mean value of a request at each level.
        costs: of each budget, side → (J,), mean amount that a request takes of it, 0 where it does not count it.
        limits: of each budget, over the requests of all sides. One that does not pay for the cheapest levels counts as
            if it just did, and a floor above the dearest ones as if it were just met, as in the solve.
        floors: whether a limit is the least.
        requests: side → number of requests.

    Returns:
        The value, or NaN where the budgets contradict each other.
    """
    sides = sorted(value)
    rows, most = [], []
    for cost, limit, floor in zip(costs, limits, floors, strict=True):
        sign = -1.0 if floor else 1.0
        least = sum(requests[side] * float((sign * cost[side]).min()) for side in sides)
        rows.append(np.concatenate([sign * requests[side] * cost[side] for side in sides]))
        most.append(max(sign * limit, least + 1e-9 * abs(least)))
    one = np.concatenate([np.full(value[side].size, place) for place, side in enumerate(sides)])
    solution = linprog(
        -np.concatenate([requests[side] * value[side] for side in sides]),
        A_ub=np.stack(rows),
        b_ub=most,
        A_eq=(one == np.arange(len(sides))[:, None]).astype(float),
        b_eq=np.ones(len(sides)),
    )
    return -float(solution.fun) if solution.status == 0 else float("nan")


def _envelope(value: Array, cost: Array) -> list[int]:
    """Indices of the upper concave envelope of the points (cost, value), from the cheapest to the most valuable."""
    hull: list[int] = []
    for j in np.lexsort((-value, cost)).tolist():
        if hull and value[j] <= value[hull[-1]]:
            continue
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (value[b] - value[a]) * (cost[j] - cost[b]) > (value[j] - value[b]) * (cost[b] - cost[a]):
                break
            hull.pop()
        hull.append(j)
    return hull
