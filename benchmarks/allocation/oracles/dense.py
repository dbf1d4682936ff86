"""A problem written out in float64, its dual, and how any prices become a certified allocation.

For solvers that are not built for speed: oracles, and the methods of the papers. What they return is judged
here, never by themselves: the bound is the dual at their prices, the rest what the decision rule does at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.problem import Matrix, Problem, Resource, ResponseCost
from shadowprice.allocation.problem.solution import ROUNDING, Allocation, Fractional, excess, pick, relative_gap
from shadowprice.decision import best_levels

Vector = NDArray[np.float64]
Levels = NDArray[np.intp]

EXACT = 1e-9
"""Largest gap and violation of an answer that is called optimal."""


@dataclass(frozen=True, eq=False)
class Dense:
    """K limits on J levels of N accounts: ``maximize Σ value`` subject to ``Σ net_k ≤, ≥ or = capacity_k``.

    value    (J, N)
    paid     (K, J, N), money
    measure  (K, J, N), what a mean is taken over; 0 where there is none
    allowed  bool (J, N)
    """

    problem: Problem
    value: Matrix
    paid: NDArray[np.float64]
    measure: NDArray[np.float64]
    allowed: NDArray[np.bool_]

    @classmethod
    def of(cls, problem: Problem) -> Dense:
        """Memory: (1 + 3K) matrices of float64. Raises InvalidProblem for a malformed resource."""
        problem.check_value()
        shape = (len(problem.resources), *problem.shape)
        return cls(
            problem,
            problem.value.astype(np.float64),
            np.array([_paid(problem, resource) for resource in problem.resources]).reshape(shape),
            np.array([_measure(problem, resource) for resource in problem.resources]).reshape(shape),
            np.ones(problem.shape, dtype=bool) if problem.allowed is None else problem.allowed,
        )

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The limits."""
        return tuple(self.problem.resources)

    @cached_property
    def net(self) -> NDArray[np.float64]:
        """(K, J, N): amount that each level takes from each row."""
        limits = np.array([resource.limit for resource in self.resources])
        return self.paid - limits[:, None, None] * self.measure

    @cached_property
    def capacity(self) -> Vector:
        """(K,): right-hand sides."""
        return np.array(
            [resource.carry + (resource.limit if resource.form == "total" else 0.0) for resource in self.resources]
        )

    @cached_property
    def lower(self) -> Vector:
        """(K,): lowest price of each row, 0 for a cap."""
        return np.array([0.0 if resource.sense == "at_most" else -np.inf for resource in self.resources])

    @cached_property
    def upper(self) -> Vector:
        """(K,): highest price of each row, 0 for a floor."""
        return np.array([0.0 if resource.sense == "at_least" else np.inf for resource in self.resources])

    @cached_property
    def worth(self) -> float:
        """A size of values, positive."""
        return float(np.abs(self.value).max()) or 1.0

    @cached_property
    def unit(self) -> Vector:
        """(K,): a size of each row's entries, positive."""
        size = np.abs(self.net).max(axis=(1, 2), initial=0.0)
        return np.where(size > 0, size, 1.0)

    def charge(self, prices: Vector) -> Matrix:
        """(J, N): charge of each level at the prices."""
        return np.asarray(np.tensordot(prices, self.net, axes=1), dtype=np.float64)

    def score(self, prices: Vector) -> Matrix:
        """(J, N): value less charge, −∞ where a level is not allowed."""
        return np.where(self.allowed, self.value - self.charge(prices), -np.inf)

    def taken(self, level: Levels) -> Vector:
        """(K,): amount that a choice of levels takes from each row."""
        return np.array([pick(net, level).sum() for net in self.net])

    def bound(self, prices: Vector) -> tuple[float, Vector]:
        """The dual at some prices, which no feasible answer exceeds, and a subgradient of it (K,)."""
        score = self.score(prices)
        level = score.argmax(axis=0)
        return float(prices @ self.capacity + score.max(axis=0).sum()), self.capacity - self.taken(level)

    def ends(self, prices: Vector) -> tuple[Levels, Levels]:
        """Cheapest and dearest of the levels that tie at the prices, (N,) each: the decision rule's."""
        charge = self.charge(prices)
        expense = charge if np.any(prices != 0) else self.net.sum(axis=0)
        cheap, dear = best_levels(self.value, charge, expense, self.allowed)
        return (cheap, dear) if np.any(prices != 0) else (cheap, cheap)

    def cheapest(self) -> Levels:
        """(N,): the level that takes least; of one budget, or of all rows in their units."""
        weight = np.where(self.upper > 0, 1.0, -1.0) / self.unit
        expense = np.where(self.allowed, self.charge(weight), np.inf)
        return np.asarray(np.where(expense == expense.min(axis=0), self.value, -np.inf).argmax(axis=0), dtype=np.intp)

    def slack(self, level: Levels) -> Vector:
        """(K,): rounding that the sums of a choice are allowed."""
        return ROUNDING * np.array(
            [abs(top) + np.abs(pick(net, level)).sum() for net, top in zip(self.net, self.capacity, strict=True)]
        )

    def violation(self, paid: Vector, measure: Vector) -> float:
        """Largest relative excess over a limit."""
        rows = zip(self.resources, paid.tolist(), self.capacity.tolist(), measure.tolist(), strict=True)
        return max((excess(each.sense, own, top + each.limit * of) for each, own, top, of in rows), default=0.0)

    def violation_of(self, level: Levels) -> float:
        return self.violation(*(np.array([pick(each, level).sum() for each in part]) for part in self._parts))

    @property
    def _parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.paid, self.measure

    def at(self, prices: Vector, *, bound: float | None = None) -> Allocation:
        """The decision rule at some prices, with the largest tie share that keeps every cap.

        Args:
            prices: (K,) within ``lower`` and ``upper``.
            bound: a dual bound found elsewhere; the lower of it and the dual at the prices is reported.

        The status is ``optimal`` where gap and violation are at most :data:`EXACT`, else ``approximate``.
        """
        cheap, dear = self.ends(prices)
        low, high = self.taken(cheap), self.taken(dear)
        rising = (high > low) & (self.upper > 0)
        most = (self.capacity - low)[rising] / (high - low)[rising]
        share = float(np.clip(most.min(initial=1.0), 0.0, 1.0)) if rising.any() else 0.0

        def mixed(matrix: Matrix) -> float:
            one, other = float(pick(matrix, cheap).sum()), float(pick(matrix, dear).sum())
            return one + share * (other - one)

        score = self.score(prices)
        dual = float(prices @ self.capacity + score.max(axis=0).sum())
        terms = float(np.abs(prices * self.capacity).sum())
        charge = self.charge(prices)
        terms += sum(
            float(np.abs(pick(self.value, end)).sum() + np.abs(pick(charge, end)).sum()) for end in (cheap, dear)
        )
        dual = dual if bound is None else min(dual, bound)
        level = self._filled(cheap, dear)
        primal = mixed(self.value)
        paid, measure = (np.array([mixed(each) for each in part]) for part in self._parts)
        gap, violation = relative_gap(primal, dual, terms), self.violation(paid, measure)
        return Allocation(
            status="optimal" if abs(gap) <= EXACT and violation <= EXACT else "approximate",
            prices=prices,
            tie_share=share,
            level=level.astype(np.int32),
            primal=primal,
            dual=dual,
            gap=gap,
            violation=violation,
            spend=paid,
            rounded=float(pick(self.value, level).sum()),
            tied=int(np.count_nonzero(cheap != dear)),
            rounded_violation=self.violation_of(level),
        )

    def within(self, prices: Vector) -> Vector:
        """Prices raised by about the least common factor at which the decision rule keeps every cap.

        For methods that end near the optimum on either side. The prices themselves where no factor helps.
        """
        caps = self.upper > 0

        def kept(times: float) -> Vector | None:
            raised = np.where(caps, np.maximum(prices * (1.0 + times), times * self.worth / self.unit), prices)
            cheap, _ = self.ends(raised)
            return raised if np.all((self.taken(cheap) - self.capacity - self.slack(cheap))[caps] <= 0) else None

        best = kept(0.0)
        if best is not None:
            return best
        low, high = 0.0, 1e-9
        while (best := kept(high)) is None:
            low, high = high, high * 4.0
            if high > 1e9:
                return prices
        # Not further: the answer should be the method's, not this search's.
        for _ in range(6):
            middle = 0.5 * (low + high)
            found = kept(middle)
            low, high, best = (middle, high, best) if found is None else (low, middle, found)
        return best

    def best_of(self, candidates: list[Vector], *, bound: float | None = None) -> Allocation:
        """The best answer among prices of a method that ends near the optimum.

        An answer that keeps the limits is better than one that does not; of such, the one worth most.
        """
        if len(self.resources) == 1 and self.upper[0] > 0:
            cheapest = self.cheapest()
            if self.taken(cheapest)[0] > self.capacity[0] + self.slack(cheapest)[0]:
                return self.infeasible()
        duals = [self.bound(prices)[0] for prices in candidates]
        lowest = min([*duals, *([] if bound is None else [bound])])
        answers = [self.at(self.within(prices), bound=lowest) for prices in candidates]
        return max(answers, key=lambda answer: (-max(answer.violation, 1e-11), answer.primal))

    def infeasible(self) -> Allocation:
        """The report that the limits cannot be met: no prices, and levels that take as little as possible."""
        level = self.cheapest()
        paid, measure = (np.array([pick(each, level).sum() for each in part]) for part in self._parts)
        worth = float(pick(self.value, level).sum())
        return Allocation.infeasible(level.astype(np.int32), worth, self.violation(paid, measure), paid)

    def fractional(self, shares: Matrix, prices: Vector) -> Allocation:
        """A solution (J, N) of the linear program that another solver found, certified by the dual at its prices."""
        shares = np.clip(np.where(self.allowed, shares, 0.0), 0.0, None)
        shares = shares / shares.sum(axis=0)
        support = shares > 1e-9
        split = np.flatnonzero(support.sum(axis=0) > 1)
        prices = np.clip(prices, self.lower, self.upper)
        expense = np.where(support, self.charge(prices), np.inf)
        cheap = expense.argmin(axis=0)
        dear = np.where(support, expense, -np.inf).argmax(axis=0)
        dual, _ = self.bound(prices)
        primal = float((shares * self.value).sum())
        paid, measure = ((shares * part).sum(axis=(1, 2)) for part in self._parts)
        low, high, spent = self.taken(cheap), self.taken(dear), (shares * self.net).sum(axis=(1, 2))
        step = float(prices @ (high - low))
        terms = float((shares * (np.abs(self.value) + np.abs(self.charge(prices)))).sum())
        rows = split[np.repeat(np.arange(split.size), support[:, split].sum(axis=0))]
        entry = np.nonzero(support[:, split].T)[1]
        level = self._filled(cheap, dear)
        return Allocation(
            status="optimal",
            prices=prices,
            tie_share=float(np.clip(prices @ (spent - low) / step, 0.0, 1.0)) if step > 0 else 0.0,
            level=level.astype(np.int32),
            primal=primal,
            dual=dual,
            gap=relative_gap(primal, dual, terms),
            violation=self.violation(paid, measure),
            spend=paid,
            rounded=float(pick(self.value, level).sum()),
            tied=split.size,
            fractional=Fractional(rows.astype(np.int64), entry.astype(np.int32), shares[entry, rows]),
            rounded_violation=self.violation_of(level),
        )

    def _filled(self, cheap: Levels, dear: Levels) -> Levels:
        """Split accounts take the dearer level one by one, smallest step first, while every cap is kept."""
        level = cheap.copy()
        caps = self.upper > 0
        rows = np.flatnonzero(cheap != dear)
        steps = self.net[:, dear[rows], rows] - self.net[:, cheap[rows], rows]
        left = self.capacity - self.taken(cheap)
        for at in np.argsort((steps / self.unit[:, None]).sum(axis=0), kind="stable").tolist():
            if np.all((left - steps[:, at])[caps] >= 0):
                left = left - steps[:, at]
                level[rows[at]] = dear[rows[at]]
        return level


def _paid(problem: Problem, resource: Resource) -> Matrix:
    """(J, N): money paid at each level, zero outside the members."""
    problem.check(resource)
    cost: Matrix
    given = resource.cost
    if isinstance(given, ResponseCost):
        response = problem.value if given.response is None else given.response
        cost = given.levels[:, None].astype(np.float64) * response.astype(np.float64)
    else:
        matrix = given[:, None] if given.ndim == 1 else given
        cost = np.broadcast_to(matrix, problem.shape).astype(np.float64)
    cost[:, ~problem.members(resource)] = 0.0
    return cost


def _measure(problem: Problem, resource: Resource) -> Matrix:
    """(J, N): multiplier of the limit — 0, 1 or the response — zero outside the members."""
    if resource.form == "per_response":
        measure = np.array(resource.response, dtype=np.float64)
    else:
        measure = np.full(problem.shape, 0.0 if resource.form == "total" else 1.0)
    measure[:, ~problem.members(resource)] = 0.0
    return measure
