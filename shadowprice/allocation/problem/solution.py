"""Result of a solve: prices, a level for every account, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.problem import Matrix, Sense

ROUNDING = 1e-12
"""Relative slack that sums are allowed for floating point."""

Status = Literal["optimal", "approximate", "infeasible"]


@dataclass(frozen=True, eq=False)
class Fractional:
    """Accounts that the optimum of the linear program gives several levels: a share of each.

    A vertex with K limits has at most K such accounts (Sinha and Zoltners 1979 for K = 1).

    account  int64 (F,), ascending; an account appears once for each of its levels
    level    int32 (F,)
    share    float64 (F,), positive; the shares of one account add up to 1
    """

    account: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    level: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    share: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class Allocation:
    """A solved problem.

    With one budget the optimum of the linear program is the policy *(prices, tie_share)*: every
    account takes its best level at the prices, and an account whose best levels tie takes the dearest
    with probability ``tie_share``; ``level`` is the same policy rounded so that no limit is exceeded.

    With several limits the optimum gives every account its best level at the prices as well, except the few of
    ``fractional``, each of which ties with shares of its own. ``primal``, ``violation`` and ``spend`` are those of this
    optimum; ``tie_share`` is the largest single share at which the decision rule exceeds no cap in expectation (0 where
    there is none). ``level`` is an answer in whole levels. It is within every limit whenever such an answer was found,
    which is certain for caps where one level takes least from all of them (no incentive, as a rule);
    ``rounded_violation`` says what it exceeds otherwise. An equality over costs that are not whole numbers is in
    general met by no whole answer: ``level`` then comes close, on either side.

    status      ``optimal``; ``approximate`` from a method that ended elsewhere: gap and violation measure it;
                or ``infeasible`` when no answer, fractional or not, meets the limits; then
                prices are NaN and ``level`` exceeds them by as little as was found (for one budget: the
                cheapest levels)
    prices      (K,), λ of each resource in value per unit of cost: ≥ 0 of a cap, ≤ 0 of a floor, any of an equality
    tie_share   share of tied accounts that take the dearer level
    level       (N,), one level per account: int8 for up to 127 levels in memory, int32 otherwise
    primal      value of the optimum of the linear program
    dual        upper bound on every feasible value: λ·capacity + Σ_i max_j (value − λ·cost)
    gap         (dual − primal) / |dual|
    violation   largest relative excess of the optimum's spend over a limit; ≤ 0 is feasible
    spend       (K,), money paid by the optimum, minor units
    rounded     value of ``level``
    tied        number of accounts that tie at the prices
    passes      reads of the whole input the solver made; 0 where it does not count them
    fractional  the accounts that are split; empty where ``tie_share`` suffices
    rounded_violation  the violation of ``level``
    conflict    where infeasible with several limits: names of rows that cannot be met together
    """

    status: Status
    prices: NDArray[np.float64]
    tie_share: float
    level: NDArray[np.signedinteger[Any]]
    primal: float
    dual: float
    gap: float
    violation: float
    spend: NDArray[np.float64]
    rounded: float
    tied: int
    passes: int = 0
    fractional: Fractional = field(default_factory=Fractional)
    rounded_violation: float = 0.0
    conflict: tuple[str, ...] = ()

    @classmethod
    def infeasible(
        cls,
        level: NDArray[np.signedinteger[Any]],
        value: float,
        violation: float,
        spend: NDArray[np.float64],
        *,
        passes: int = 0,
        conflict: tuple[str, ...] = (),
    ) -> Allocation:
        """Report that the limits cannot be met, with levels that exceed them by as little as was found."""
        return cls(
            status="infeasible",
            prices=np.full(spend.size, np.nan),
            tie_share=0.0,
            level=level,
            primal=value,
            dual=-np.inf,
            gap=np.inf,
            violation=violation,
            spend=spend,
            rounded=value,
            tied=0,
            passes=passes,
            rounded_violation=violation,
            conflict=conflict,
        )

    def with_floor(self, least: float) -> Allocation:
        """Return the answer where no price of the first resource may be below ``least``.

        This one is the answer of the problem whose values are net of ``least`` of a unit of that resource's cost: the
        linear program to whose value an unspent unit adds ``least``. Its price is λ − ``least`` ≥ 0, and 0 where
        money stays unspent. Primal and dual become values without the unspent money; gap and violation stay.
        """
        paid = least * self.spend[0]
        return replace(
            self,
            prices=self.prices + least * (np.arange(self.prices.size) == 0),
            primal=float(self.primal + paid),
            dual=float(self.dual + paid),
            rounded=float(self.rounded + paid),
        )

    @property
    def rounded_gap(self) -> float:
        """(dual − rounded) / |dual|: what the answer in whole levels may lack of the best one."""
        return relative_gap(self.rounded, self.dual, abs(self.dual))


def pick(matrix: Matrix, level: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N,): the entry of each account's level."""
    return np.asarray(matrix[level, np.arange(level.size)], dtype=np.float64)


def excess(sense: Sense, paid: float, allowance: float) -> float:
    """(paid − allowance) / allowance with the sign that the sense gives it; ≤ 0 is within the limit."""
    above = paid / allowance - 1.0 if allowance > 0 else np.inf if paid > allowance else 0.0
    if sense == "at_most":
        return above
    below = 1.0 - paid / allowance if allowance > 0 else 0.0
    return below if sense == "at_least" else max(above, below)


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
