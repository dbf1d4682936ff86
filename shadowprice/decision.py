"""The one rule for deciding: ``argmax_j value_j − Σ_k price_k · cost_kj``, ties shared by a hash.

:mod:`shadowprice.policy` calls :func:`decide`; nothing else in the project turns a curve and a price into an incentive.
Pure, vectorized, numpy only.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput

NOTHING = -1
"""Level of a request that is given nothing, not even a level without incentive."""

EXPLORE = b"explore"
"""Purpose that separates the numbers that explore from those that break ties."""

TIE_TOLERANCE = 1e-9
"""Two scores count as equal when they differ by less than this share of the terms they are made of."""


@dataclass(frozen=True)
class Chances:
    """Probability of each level for N requests; few arrays in place of all J.

    cheap, dear  (N,), the levels that tie for the best; equal where one is best
    dearer       (N,), probability of ``dear`` where they differ, 0 elsewhere
    exploration  float64 (N,), probability that the level is drawn from the allowed ones
    allowed      bool (J, N)
    weights      (J,), weight of each level where one is drawn; those of a request's allowed levels are scaled to 1
    """

    cheap: NDArray[np.intp]
    dear: NDArray[np.intp]
    dearer: NDArray[np.float64]
    exploration: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    weights: NDArray[np.float64]

    def propensity(self, level: NDArray[np.integer]) -> NDArray[np.float64]:
        """(N,): the probability of one level of each request."""
        chosen = self._chosen(level)
        if not self.exploration.any():
            return chosen
        possible = np.take_along_axis(self.allowed, np.asarray(level)[None], axis=0)[0]
        return self._explored(possible * self.weights[level], chosen)

    def propensities(self) -> NDArray[np.float64]:
        """(J, N): the probability of every level; columns sum to 1. What a log needs to judge other policies by."""
        return self._explored(self.allowed * self.weights[:, None], self._chosen(np.arange(len(self.allowed))[:, None]))

    def _chosen(self, level: NDArray[np.integer]) -> NDArray[np.float64]:
        """Propensities of levels (N,) or (J, 1) without exploration."""
        chance: NDArray[np.float64] = (level == self.cheap) * (1.0 - self.dearer) + (level == self.dear) * self.dearer
        return chance

    def _explored(self, weight: NDArray[np.float64], chosen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Propensities of levels with these weights, 0 where a level is not allowed."""
        drawn: NDArray[np.float64] = weight * (self.exploration / (self.weights @ self.allowed))
        return drawn + (1.0 - self.exploration) * chosen


@dataclass(frozen=True)
class Decision:
    """Decisions on N requests.

    level       int32 (N,), index of the chosen level
    propensity  float64 (N,), probability with which the policy chooses that level
    tied        bool (N,), whether a tie at the price was broken by the tie share
    explored    bool (N,), whether the level was drawn instead of chosen
    policy      the probabilities of all levels
    """

    level: NDArray[np.int32]
    propensity: NDArray[np.float64]
    tied: NDArray[np.bool_]
    explored: NDArray[np.bool_]
    policy: Chances = field(repr=False)


def decide(
    value: ArrayLike,
    cost: ArrayLike,
    prices: ArrayLike,
    tie_share: float,
    request_ids: Sequence[str] | Sequence[bytes] | Sequence[int] | NDArray[np.generic],
    allowed: ArrayLike | None = None,
    *,
    exploration: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
) -> Decision:
    """Choose one level for every request.

    Args:
        value: (J, N), value of each level.
        cost: (K, J, N), or (J, N) for one budget: what each level takes from each budget, net of
            the allowance it earns (``g − B·m`` for a budget per response).
        prices: (K,), the price of money λ of each budget: ≥ 0 of a cap, ≤ 0 of a floor, any of an equality.
        tie_share: probability in [0, 1] of the dearer level where two levels tie at the price.
        request_ids: N identifiers; the same id always gets the same answer.
        allowed: bool (J, N), levels that may be chosen; every request needs at least one.
        exploration: ε in [0, 1], share of requests whose level is drawn from the allowed ones; or (N,), the probability
            of each request.
        weights: (J,), positive weight w of each level where one is drawn; None: 1 for all, a uniform draw.

    Among levels that tie for the best score the dearest is chosen with probability ``tie_share``
    and the cheapest otherwise; what costs the same goes to the lower index. This realizes the
    fractional optimum of the linear program in expectation.

    With exploration the propensity of an allowed level j is ε·w_j/Σ w + (1 − ε)·π, where π is its probability without
    and the sum is over the allowed levels of the request. Whether and what a request explores depends on its id alone,
    by a hash that is independent of the one that breaks ties.

    Raises:
        InvalidInput: shapes that do not agree, prices that are not finite, weights that are not positive, a request
            with no allowed level.

    O(J·K) per request. Source: S0 eq. 19–20, S1 eq. 7; the tie share is record 1.
    """
    values = np.asarray(value, dtype=np.float64)
    costs = np.asarray(cost, dtype=np.float64)
    lam = np.atleast_1d(np.asarray(prices, dtype=np.float64))
    if values.ndim != 2:
        raise InvalidInput(f"must have shape (levels, requests), got {values.shape}", field="value")
    if costs.ndim == 2:
        costs = costs[None]
    if costs.shape != (lam.size, *values.shape):
        raise InvalidInput(
            f"must have shape (budgets, levels, requests) = {(lam.size, *values.shape)}, got {costs.shape}",
            field="cost",
        )
    if not np.all(np.isfinite(lam)):
        raise InvalidInput("must be finite", field="prices")
    if not 0.0 <= tie_share <= 1.0:
        raise InvalidInput("must lie in [0, 1]", field="tie_share")
    explore = np.asarray(exploration, dtype=np.float64)
    if not (np.all(explore >= 0.0) and np.all(explore <= 1.0)):
        raise InvalidInput("must lie in [0, 1]", field="exploration")
    for name, matrix in (("value", values), ("cost", costs.sum(axis=0))):
        InvalidInput.refuse_rows(~np.isfinite(matrix), "must be finite; requests with NaN or infinity", field=name)
    requests = values.shape[1]
    if len(request_ids) != requests:
        raise InvalidInput(f"needs one id for each of {requests} requests, got {len(request_ids)}", field="request_ids")
    if explore.shape not in ((), (requests,)):
        raise InvalidInput(f"must be a number or have shape ({requests},), got {explore.shape}", field="exploration")
    explore = np.broadcast_to(explore, (requests,))
    law = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if law.shape != (len(values),) or not (np.all(law > 0.0) and np.all(np.isfinite(law))):
        raise InvalidInput(f"must be {len(values)} positive numbers, one for each level", field="weights")

    charge = charge_at(lam, costs)
    columns = np.arange(requests)
    mask = np.ones(values.shape, dtype=bool) if allowed is None else _check_allowed(allowed, values.shape)
    # What "dearer" means between tied levels is their charge at the prices.
    cheap, dear = best_levels(values, charge, charge if np.any(lam != 0) else costs.sum(axis=0), mask)
    tied = charge[dear, columns] > charge[cheap, columns]
    level = cheap.astype(np.int32)
    policy = Chances(cheap, dear, np.where(tied, tie_share, 0.0), explore, mask, law)
    rows = np.flatnonzero(tied)
    if rows.size:
        take = np.array([uniform(request_ids[row]) for row in rows.tolist()]) < tie_share
        level[rows] = np.where(take, dear[rows], cheap[rows])
    explored = np.zeros(requests, dtype=bool)
    may = np.flatnonzero(explore > 0)
    if may.size:
        draw = np.array([uniform(request_ids[row], EXPLORE) for row in may.tolist()]) / explore[may]
        at = may[draw < 1]
        explored[at] = True
        # The draw of a request that explores is uniform in [0, 1): it selects one of the allowed levels by its weight.
        ends = np.cumsum(mask[:, at] * law[:, None], axis=0)
        place = np.minimum(draw[draw < 1] * ends[-1], np.nextafter(ends[-1], 0.0))
        level[at] = (ends > place).argmax(axis=0)
    return Decision(level, policy.propensity(level), tied & ~explored, explored, policy)


def charge_at(prices: NDArray[np.float64], costs: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """(J, N): Σ_k price_k · cost_kj of costs (K, J, N)."""
    charge: NDArray[np.float64] = prices[0] * costs[0] if prices.size == 1 else np.tensordot(prices, costs, axes=1)
    return charge


@dataclass(frozen=True)
class Fitted:
    """Answer to one request whose budget may be nearly exhausted.

    level          index of the level given, or :data:`NOTHING`
    propensity     probability of this answer, given the remaining budget
    probabilities  (J,), probability of each level; what is missing from 1 is the probability of :data:`NOTHING`
    """

    level: int
    propensity: float
    probabilities: tuple[float, ...]


def fit_budget(
    level: int,
    probabilities: Sequence[float],
    reserved: Sequence[int],
    left: float,
    *,
    unpaid_allowed: bool = True,
) -> Fitted:
    """Replace a level that the remaining budget cannot cover, and correct the probabilities of all levels.

    Args:
        level: index that :func:`decide` chose.
        probabilities: (J,), the probability of each level under the policy.
        reserved: (J,), the most that each level can cost, minor units.
        left: remaining budget, minor units.
        unpaid_allowed: whether the request may be given the level of no incentive, where there is one.

    A level that does not fit is replaced by the level of no incentive, or by nothing where that level is missing or
    not allowed. All levels that do not fit end at that one answer, so its probability is their total mass and its own.

    Example:
        >>> fit_budget(2, (0.2, 0.5, 0.3), (0, 50, 130), left=60)
        Fitted(level=0, propensity=0.5, probabilities=(0.5, 0.5, 0.0))
        >>> fit_budget(2, (0.0, 0.7, 0.3), (0, 50, 130), left=60, unpaid_allowed=False)
        Fitted(level=-1, propensity=0.3, probabilities=(0.0, 0.7, 0.0))

    O(J).
    """
    kept, missing = [], 0.0
    for share, most in zip(probabilities, reserved, strict=True):
        fits = most <= max(left, 0)
        kept.append(share if fits else 0.0)
        # In this order, so that every store of the ledger computes the same sum.
        missing = missing if fits else missing + share
    free = unpaid_allowed and reserved[0] == 0
    if free:
        kept[0] = min(kept[0] + missing, 1.0)
    if reserved[level] <= max(left, 0):
        return Fitted(level, kept[level], tuple(kept))
    return Fitted(0, kept[0], tuple(kept)) if free else Fitted(NOTHING, min(missing, 1.0), tuple(kept))


def best_levels(
    value: NDArray[np.float64], charge: NDArray[np.float64], expense: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cheapest and dearest of the levels that tie for the best ``value − charge``.

    All arguments are (J, N); ``expense`` orders the tied levels. Returns two arrays (N,), equal
    where the best level is unique; what costs the same goes to the higher value, then the lower index.
    """
    columns = np.arange(value.shape[1])
    score = np.where(allowed, value - charge, -np.inf)
    top = np.asarray(score.argmax(axis=0), dtype=np.intp)
    scale = np.abs(value[top, columns]) + np.abs(charge[top, columns])
    tied = score >= score[top, columns] - TIE_TOLERANCE * scale
    if np.count_nonzero(tied) == columns.size:
        return top, top
    cheap = _extreme(expense, score, tied, -1.0)
    dear = _extreme(expense, score, tied, 1.0)
    return cheap, np.where(expense[dear, columns] > expense[cheap, columns], dear, cheap)


def _extreme(
    expense: NDArray[np.float64], score: NDArray[np.float64], tied: NDArray[np.bool_], sign: float
) -> NDArray[np.intp]:
    end = np.where(tied, sign * expense, -np.inf)
    return np.asarray(np.where(end == end.max(axis=0, initial=-np.inf), score, -np.inf).argmax(axis=0), dtype=np.intp)


def _check_allowed(allowed: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    mask = np.asarray(allowed, dtype=bool)
    if mask.shape != shape:
        raise InvalidInput(f"must have shape {shape}, got {mask.shape}", field="allowed")
    InvalidInput.refuse_rows(~mask.any(axis=0), "every request needs an allowed level", field="allowed")
    return mask


def uniform(request_id: str | bytes | int | np.generic, purpose: bytes = b"") -> float:
    """A number in [0, 1) that depends on identifier and purpose alone, the same in every process.

    Numbers of one identifier for two purposes (at most 16 bytes each) are independent.
    """
    data = request_id if isinstance(request_id, bytes) else str(request_id).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=purpose).digest(), "big") / 2.0**64
