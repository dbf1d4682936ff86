"""Build an allocation from located prices of several limits: the optimum, its rounding, and their certificate."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import Tile
from shadowprice.allocation.kernel.arguments import Levels, Matrix
from shadowprice.allocation.problem.problem import Resource
from shadowprice.allocation.problem.solution import ROUNDING, Allocation, Fractional, excess, relative_gap
from shadowprice.allocation.several_budgets.active_set import ActiveSet
from shadowprice.allocation.several_budgets.bounds import Bounds
from shadowprice.allocation.several_budgets.descent import Vertex
from shadowprice.allocation.several_budgets.rounding import whole_levels
from shadowprice.allocation.several_budgets.rows import Rows
from shadowprice.decision import best_levels


@dataclass(frozen=True, eq=False)
class Located:
    """Prices at which the dual of several limits is lowest, over a whole population.

    rows     the limits
    sums     (patterns, 2 + 2M): value, net costs, measures and number of the accounts whose best level is certain
    last     the accounts that remain
    account  int64 (n_last,), their positions
    active   the same accounts in float64
    vertex   the optimum on them
    level    (N,), best levels at the prices of all others
    passes   reads of the whole population
    """

    rows: Rows
    sums: Matrix
    last: Tile
    account: NDArray[np.int64]
    active: ActiveSet
    vertex: Vertex
    level: Levels
    passes: int

    @cached_property
    def remaining(self) -> NDArray[np.float64]:
        """(K,): remaining amount of each row after the certain accounts."""
        return self.rows.capacity - self.rows.taken(self.sums)

    @cached_property
    def slack(self) -> NDArray[np.float64]:
        """(K,): rounding that the sums of each row are allowed."""
        return self.rows.slack(self.sums)


@dataclass(frozen=True, eq=False)
class Achieved:
    """Value (), net cost and measure (K,) of an answer."""

    value: float
    net: NDArray[np.float64]
    measure: NDArray[np.float64]


def certified(located: Located, resources: tuple[Resource, ...]) -> Allocation:
    """The optimum of the linear program, its rounding, and the bound both are measured against."""
    active, vertex, rows = located.active, located.vertex, located.rows
    prices = vertex.prices
    score = active.score(prices)
    certain = float(located.sums[:, 0].sum()) + float(prices @ located.remaining)
    dual = certain + active.worth * float(active.times @ score.max(axis=0))
    terms = abs(certain) + np.abs(prices) @ np.abs(rows.capacity) + np.abs(located.sums[:, 0]).sum()

    optimum = _totals(located, *_shares(vertex, active))
    whole = whole_levels(active, vertex, Bounds(active, rows, prices, located.remaining, located.slack, dual))
    rounded = _totals(located, np.arange(active.accounts), whole, active.times)
    level = located.level
    level[located.account] = whole
    cheap, dear = best_levels(active.value, active.value - score, active.value - score, active.allowed)
    order = np.argsort(located.account[vertex.account], kind="stable")
    return Allocation(
        status="optimal",
        prices=prices,
        tie_share=_tie_share(located, cheap, dear),
        level=level,
        primal=optimum.value,
        dual=dual,
        gap=relative_gap(optimum.value, dual, float(terms)),
        violation=violation(located, resources, optimum),
        spend=optimum.net + rows.limits * optimum.measure,
        rounded=rounded.value,
        tied=int(np.count_nonzero(cheap != dear)),
        passes=located.passes,
        fractional=Fractional(
            located.account[vertex.account][order], vertex.tied[order].astype(np.int32), vertex.share[order]
        ),
        rounded_violation=violation(located, resources, rounded),
    )


def violation(located: Located, resources: tuple[Resource, ...], totals: Achieved) -> float:
    """Largest relative excess over a limit; what is rounding in a row's sums counts as none."""
    rows, worst = located.rows, -np.inf
    for k, resource in enumerate(resources):
        allowance = rows.capacity[k] + rows.limits[k] * totals.measure[k]
        paid = totals.net[k] + rows.limits[k] * totals.measure[k]
        beyond = excess(resource.sense, paid, allowance)
        rounding = located.slack[k] + ROUNDING * (abs(paid) + abs(allowance))
        worst = max(worst, beyond if abs(paid - allowance) > rounding else min(beyond, 0.0))
    return float(worst) if resources else 0.0


def _shares(vertex: Vertex, active: ActiveSet) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return account, level and share of every entry of the optimum."""
    rest = np.setdiff1d(np.arange(active.accounts), vertex.account)
    return (
        np.concatenate([rest, vertex.account]),
        np.concatenate([vertex.level[rest], vertex.tied]),
        np.concatenate([active.times[rest], vertex.share]),
    )


def _totals(
    located: Located, account: NDArray[np.intp], level: NDArray[np.intp], share: NDArray[np.float64]
) -> Achieved:
    active, rows = located.active, located.rows
    paid, measured = np.zeros(rows.count), np.zeros(rows.count)
    for m, cost in enumerate(rows.costs):
        # In float64 from the matrices themselves, not from the active set's units.
        load = rows.loads[m][active.pattern[account]]
        paid += share * active.cost[m, level, account] * active.sizes[m] @ load
        if cost.measured:
            plane = located.last.planes[cost.measured - 1]
            measured += share * plane[level, account].astype(np.float64) @ load
    return Achieved(
        float(located.sums[:, 0].sum()) + active.worth * float(share @ active.value[level, account]),
        rows.taken(located.sums) + paid,
        rows.measured(located.sums) + measured,
    )


def _tie_share(located: Located, cheap: NDArray[np.intp], dear: NDArray[np.intp]) -> float:
    """The largest share at which tied accounts, all drawn alike, exceed no cap in expectation."""
    active, rows = located.active, located.rows
    every = np.arange(active.accounts)
    low = _totals(located, every, cheap, active.times).net
    rise = _totals(located, every, dear, active.times).net - low
    caps = (rows.upper > 0) & (rise > 0)
    share = (rows.capacity - low)[caps] / rise[caps]
    return float(np.clip(share.min(initial=1.0), 0.0, 1.0)) if np.any(cheap != dear) else 0.0


def contradiction(located: Located, resources: tuple[Resource, ...]) -> Allocation:
    """No answer, as the limits contradict each other; the levels take least along the direction that proves it."""
    active, rows, ray = located.active, located.rows, located.vertex.ray
    assert ray is not None
    best = np.where(active.allowed, active.charge(ray * active.unit), np.inf).argmin(axis=0)
    totals = _totals(located, np.arange(active.accounts), best, active.times)
    level = located.level
    level[located.account] = best
    return Allocation.infeasible(
        level,
        totals.value,
        violation(located, resources, totals),
        totals.net + rows.limits * totals.measure,
        passes=located.passes,
        conflict=tuple(resource.name for resource, part in zip(resources, ray, strict=True) if part != 0.0),
    )
