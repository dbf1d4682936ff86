"""Exact segment sizes at about the speed of memory: a bracket of prices, one pass, shortest paths for the rest.

Samples that are solved exactly give a bracket for the prices. One pass settles every account whose segment is the same
everywhere in the bracket. The others are a smaller problem of the same kind; the smallest problem is solved by
successive shortest paths. An exact check then shows whether some optimal prices lie in the bracket. A bracket without
optimal prices costs another pass and never the optimum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.exact_sizes.bracket import GROUPS, Bracket, Matrix, sampled, supporting
from shadowprice.allocation.exact_sizes.plan import Plan, Real, SizedProblem
from shadowprice.allocation.kernel import exact_sizes, place
from shadowprice.allocation.kernel.place import narrowest
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.problem.solution import relative_gap
from shadowprice.errors import InvalidProblem

EXACT = 8192
"""Number of accounts that shortest paths solve at once; larger problems are narrowed down first."""

TRIES = 3
"""Brackets that are tried before everyone is solved by shortest paths."""


@dataclass(frozen=True, eq=False)
class Found:
    """The best plan of some accounts, or ``reached`` when the sizes are impossible.

    segment  int8 or int16 (n,)
    prices   (J,)
    least    (J, J), prices with π_a − π_b ≤ least_ab support the plan; see :class:`~.paths.Sized`
    worth    Σ value of the accounts settled by a bracket
    last     (J, n_last), values of the others
    final    (n_last,), their segments
    passes   reads of these accounts
    """

    segment: NDArray[np.signedinteger[Any]]
    prices: Matrix
    least: Matrix
    worth: float
    last: Matrix
    final: NDArray[np.signedinteger[Any]]
    reached: NDArray[np.bool_] | None
    passes: int


def solve_demands(
    value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None = None, *, near: ArrayLike | None = None
) -> Plan:
    """The plan of greatest value with exactly ``demands[j]`` accounts in segment j.

    Args:
        value: (J, N) float32, level-major, what each segment is worth to each account; finite.
        demands: whole numbers (J,), not negative, with sum N.
        allowed: bool (J, N), which segments an account may enter; None: all. Every account needs one.
        near: (J,) prices expected to be close, such as the last plan's; finite.

    Returns:
        A certified plan, or one with status ``infeasible`` and the segments that cause it in ``shortage``.

    Raises:
        InvalidProblem: an argument is malformed; see :meth:`SizedProblem.of`.

    One read of the input with a bracket around it, O(J·N), and shortest paths over O(√N) accounts; one or two further
    reads when a sample's bracket misses. Memory beside the input: 4 bytes per account and some per cent of the input.
    Masks so tight that nearly every price is extreme, and values of which most tie, are solved by shortest paths over
    the accounts concerned, in float64: slower, and with a copy of those accounts.

    Source: S2 eq. 1 as an assignment problem; Ahuja, Magnanti and Orlin (1993), chapter 9, for the paths.
    """
    problem = SizedProblem.of(value, demands, allowed)
    closed = problem.demand == 0
    shortage = problem.shortage(~closed) if closed.any() else None
    if shortage is not None:
        return problem.impossible(shortage)
    center = np.zeros(closed.size) if near is None else _prices(near, closed.size)
    bracket = Bracket.everywhere(center, problem.demand)
    solved = _solve(problem.value, problem.allowed, problem.demand, bracket, problem)
    if solved.reached is not None:
        shortage = problem.shortage(~solved.reached)
        assert shortage is not None
        return problem.impossible(shortage)
    return _certified(problem, solved, closed)


def sample_size(accounts: int) -> int:
    """Accounts of one sample: solving samples costs as much as the accounts that their error leaves unsettled."""
    return max(256, int(0.35 * accounts ** (2 / 3)))


def _prices(near: ArrayLike, depth: int) -> Matrix:
    prices = np.array(near, dtype=np.float64)
    if prices.shape != (depth,) or not np.isfinite(prices).all():
        raise InvalidProblem(f"must be {depth} finite prices", field="near")
    return prices


def _solve(
    value: Real,
    allowed: NDArray[np.bool_] | None,
    demand: NDArray[np.int64],
    bracket: Bracket,
    problem: SizedProblem | None = None,
) -> Found:
    n = value.shape[1]
    if n <= max(EXACT, GROUPS * WIDTH):
        return _paths(value, allowed, demand, bracket)
    open_ = ~bracket.closed
    inner, share = sampled(value, allowed, demand, bracket, sample_size(n))
    for attempt in range(TRIES):
        placed = place(value, allowed, inner.low, inner.high, share)
        rest = demand - placed.sizes
        if (rest >= 0).all():
            if placed.account.size > 0.6 * n:
                break
            solved = _solve(placed.open, None, rest, inner)
            if solved.reached is None:
                # A settled account of a loses more by moving to b than any price difference in the bracket.
                least = np.minimum(solved.least, inner.least)
                if _supported(least[open_][:, open_], solved.prices[open_]):
                    level = placed.level
                    level[placed.account] = solved.segment
                    worth = placed.worth + solved.worth
                    return Found(level, solved.prices, least, worth, solved.last, solved.final, None, attempt + 1)
            elif problem is not None and problem.shortage(~solved.reached) is not None:
                return solved
        inner = inner.widened(4.0, 1e-3 * float(np.ptp(inner.center[open_]))).within(bracket)
    return _paths(value, allowed, demand, Bracket(bracket.low, bracket.high, inner.center, bracket.weight))


def _supported(least: Matrix, prices: Matrix) -> bool:
    """Return whether some prices keep to ``least``; ``prices`` are tried first."""
    return bool((prices[:, None] - prices <= least).all()) or supporting(least) is not None


def _paths(value: Real, allowed: NDArray[np.bool_] | None, demand: NDArray[np.int64], bracket: Bracket) -> Found:
    last = value.astype(np.float64)
    if allowed is not None:
        last[~allowed] = -np.inf
    closed = bracket.closed
    last[closed] = -np.inf
    sizes = exact_sizes(last.T, demand, np.where(closed, 0.0, bracket.center))
    segment: NDArray[np.signedinteger[Any]] = sizes.segment.astype(narrowest(demand.size))
    return Found(segment, sizes.prices, sizes.least, 0.0, last, segment, sizes.reached, 1)


def _certified(problem: SizedProblem, found: Found, closed: NDArray[np.bool_]) -> Plan:
    open_, demand = ~closed, problem.demand
    prices = np.zeros(closed.size)
    middle = supporting(found.least[open_][:, open_])
    prices[open_] = found.prices[open_] if middle is None else middle
    prices -= prices[open_].min()
    # Above the largest possible gain there.
    prices[closed] = prices[open_].max() + (problem.bounds.most - problem.bounds.least)

    own = found.last[found.final, np.arange(found.final.size)]
    primal = found.worth + float(own.sum())
    rest = np.bincount(found.final, minlength=closed.size)
    best = float((found.last - prices[:, None]).max(axis=0).sum())
    settled = found.worth - float((demand - rest) @ prices)
    dual = float(demand @ prices) + settled + best
    terms = abs(found.worth) + float(np.abs(own).sum()) + 2.0 * float(demand @ np.abs(prices))
    return Plan(
        status="optimal",
        segment=found.segment,
        prices=prices,
        objective=primal,
        dual=dual,
        gap=relative_gap(primal, dual, terms),
        sizes=demand.copy(),
        passes=found.passes,
        allowed=problem.allowed,
    )
