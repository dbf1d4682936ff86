"""What a solve returns: prices, an answer for every account, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem import Matrix, Problem, Resource

ROUNDING = 1e-12
"""Relative slack that sums are allowed for floating point."""

Status = Literal["optimal", "infeasible"]


@dataclass(frozen=True, eq=False)
class Allocation:
    """A solved problem.

    The optimum of the linear programme is the policy *(prices, tie_share)*: every account takes
    its best level at the prices, and an account whose best levels tie takes the dearest with
    probability ``tie_share``. ``level`` is the same policy rounded so that no limit is exceeded.

    status      ``optimal``, or ``infeasible`` when even the cheapest levels exceed a limit; then
                prices are NaN and ``level`` holds those cheapest levels
    prices      (K,), λ ≥ 0 of each resource, in value per unit of cost
    tie_share   share of tied accounts that take the dearer level
    level       int32 (N,), one level per account, within every limit
    primal      value of the policy: the optimum of the linear programme
    dual        upper bound on every feasible value: λ·capacity + Σ_i max_j (value − λ·cost)
    gap         (dual − primal) / |dual|
    violation   largest relative excess of the policy's spend over its limit; ≤ 0 is feasible
    spend       (K,), money paid by the policy, minor units
    rounded     value of ``level``
    tied        number of accounts that tie at the prices
    passes      reads of the whole input the solver made; 0 where it does not count them
    """

    status: Status
    prices: NDArray[np.float64]
    tie_share: float
    level: NDArray[np.int32]
    primal: float
    dual: float
    gap: float
    violation: float
    spend: NDArray[np.float64]
    rounded: float
    tied: int
    passes: int = 0


def pick(matrix: Matrix, level: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N,): the entry of each account's level."""
    return np.asarray(np.take_along_axis(matrix, level[None].astype(np.intp), axis=0)[0], dtype=np.float64)


def relative_excess(problem: Problem, resource: Resource, paid: float, measure: float) -> float:
    """(spend − allowance) / allowance of one resource; ≤ 0 is within the limit.

    ``paid`` is the money, ``measure`` the quantity a mean is taken over.
    """
    allowance = problem.capacity(resource) + resource.limit * measure
    if allowance > 0:
        return paid / allowance - 1.0
    return np.inf if paid > allowance else 0.0


def relative_gap(primal: float, dual: float, terms: float) -> float:
    """(dual − primal) / |dual|; a difference that is rounding in the dual's own terms counts as none.

    Without that an optimum of zero would show a gap of one.
    """
    if not np.isfinite(dual):
        return np.inf
    return 0.0 if abs(dual - primal) <= ROUNDING * terms else (dual - primal) / abs(dual)


def fill(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    cheap: NDArray[np.intp],
    dear: NDArray[np.intp],
    capacity: float,
) -> NDArray[np.int32]:
    """Round the tie share: tied accounts take the dearer level, smallest step first, while the budget lasts."""
    level = cheap.astype(np.int32)
    rows = np.flatnonzero(cheap != dear)
    rows = rows[np.argsort((high - low)[rows], kind="stable")]
    left = capacity - float(low.sum())
    fits = rows[np.cumsum((high - low)[rows]) <= left]
    level[fits] = dear[fits]
    return level
