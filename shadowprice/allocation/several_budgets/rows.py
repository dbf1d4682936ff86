"""Several limits as the kernel takes them: few kinds of cost, and who counts towards which row.

Rows that count the same cost over different members share one *kind* of cost, and accounts that belong to the
same rows share one *pattern*. The charge of an account is then Σ_kinds price(kind, pattern) · cost(kind), where
price(kind, pattern) sums the prices of the pattern's rows of that kind: with one kind, as when groups have budgets
of the same money, a single number for each pattern.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.kernel.arguments import Matrix, Real
from shadowprice.allocation.problem.net_cost import Row, row_of, tile_of
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import ROUNDING
from shadowprice.errors import InvalidProblem

FEW_GROUPS = 8
"""Rows with members of which every combination is a pattern, whether it occurs or not."""

MOST_PATTERNS = 1 << 16
"""Largest number of membership patterns that the kernel distinguishes."""


@dataclass(frozen=True, eq=False)
class Rows:
    """K limits on a population: lower_k ≤ λ_k ≤ upper_k sets the sense of each.

    costs     M kinds of net cost
    loads     (M, patterns, K), 1 where a row counts accounts of the pattern by that kind
    capacity  (K,), what the net costs of a row may, must or at least have to come to
    lower     (K,), 0 for a cap and −∞ otherwise
    upper     (K,), 0 for a floor and ∞ otherwise
    limits    (K,), what the measure in a row's cost was multiplied by; 0 where there is none
    """

    costs: tuple[NetCost, ...]
    loads: NDArray[np.float64]
    capacity: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    limits: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of rows K."""
        return int(self.capacity.size)

    def prices(self, prices: NDArray[np.float64]) -> Matrix:
        """(M, patterns): price of each pattern for each kind of cost when the rows' prices are (K,)."""
        return np.asarray(self.loads @ prices, dtype=np.float64)

    def taken(self, sums: Matrix) -> NDArray[np.float64]:
        """(K,): amount that each row takes, from the kernel's sums (patterns, 2 + 2M)."""
        return np.asarray(np.einsum("mpk,pm->k", self.loads, sums[:, 1 : 1 + len(self.costs)]), dtype=np.float64)

    def measured(self, sums: Matrix) -> NDArray[np.float64]:
        """(K,): denominator of each row's mean per response, from the kernel's sums."""
        kinds = len(self.costs)
        return np.asarray(np.einsum("mpk,pm->k", self.loads, sums[:, 1 + kinds : 1 + 2 * kinds]), dtype=np.float64)

    def nothing(self) -> Matrix:
        """The kernel's sums over no account."""
        return np.zeros((self.loads.shape[1], 2 + 2 * len(self.costs)))

    @property
    def least(self) -> Matrix:
        """(M, patterns): the lowest price a pattern can pay for a kind of cost."""
        return _product(self.loads, self.lower)

    @property
    def most(self) -> Matrix:
        """(M, patterns): the highest."""
        return _product(self.loads, self.upper)

    def slack(self, sums: Matrix) -> NDArray[np.float64]:
        """(K,): rounding that sums of a row are allowed: a share of the terms they are made of."""
        return np.asarray(
            ROUNDING * (np.abs(self.capacity) + np.abs(self.taken(sums)) + 2.0 * self.limits * self.measured(sums))
        )


def rows_of(
    problem: Problem,
    counted: NDArray[np.int64] | None = None,
    table: NDArray[np.bool_] | None = None,
    *,
    numbers: bool = True,
) -> tuple[Rows, Tile]:
    """The rows of a problem and its accounts, each labeled with its pattern. O(K·N).

    Where the problem has only some of the accounts, ``counted`` (K,) is how many accounts each row counts in all, and
    ``table`` (patterns, K) which patterns there are in all; without it they are those that occur, or for at most
    8 rows with members all that are possible. ``numbers`` as in :meth:`Problem.check`.

    Raises:
        InvalidProblem: a malformed resource, or more membership patterns than the kernel distinguishes.
    """
    if numbers:
        problem.check_value()
    for resource in problem.resources:
        problem.check(resource, numbers=numbers)
    rows = [
        row_of(problem, resource, None if counted is None else int(counted[k]))
        for k, resource in enumerate(problem.resources)
    ]
    planes: dict[int, Real] = {id(plane): plane for row in rows for plane in row.planes}
    place = {key: at for at, key in enumerate(planes)}
    kinds: dict[tuple[object, ...], int] = {}
    costs: list[NetCost] = []
    kind_of: list[int] = []
    for row in rows:
        parts = [(id(plane), weight.tobytes()) for plane, weight in zip(row.planes, row.cost.weights, strict=True)]
        key = (row.cost.offset.tobytes(), row.cost.measured, *parts)
        if key not in kinds:
            kinds[key] = len(costs)
            costs.append(_spread(row, place))
        kind_of.append(kinds[key])
    if not costs:
        costs = [NetCost(np.zeros(problem.shape[0]))]
    pattern, membership = patterns([row.members for row in rows], problem.shape[1])
    if table is not None and pattern is not None:
        place_of = {kind.tobytes(): at for at, kind in enumerate(table)}
        pattern = np.array([place_of[kind.tobytes()] for kind in membership], dtype=np.uint16)[pattern]
        membership = table
    loads = np.zeros((len(costs), membership.shape[0], len(rows)))
    for k, m in enumerate(kind_of):
        loads[m, :, k] = membership[:, k]
    sense = [resource.sense for resource in problem.resources]
    tile = tile_of(problem.value, tuple(planes.values()), pattern=pattern, allowed=problem.allowed)
    return Rows(
        tuple(costs),
        loads,
        np.array([row.capacity for row in rows]),
        np.array([0.0 if row_sense == "at_most" else -np.inf for row_sense in sense]),
        np.array([0.0 if row_sense == "at_least" else np.inf for row_sense in sense]),
        np.array([row.limit for row in rows]),
    ), tile


def _product(loads: Matrix, bound: NDArray[np.float64]) -> Matrix:
    """loads @ bound where an infinite bound counts only if it is loaded."""
    return np.asarray(np.where(loads > 0, bound, 0.0).sum(axis=2), dtype=np.float64)


def patterns(
    members: list[NDArray[np.bool_] | None], accounts: int
) -> tuple[NDArray[np.uint16] | None, NDArray[np.bool_]]:
    """Group accounts by their rows: pattern (N,), or None when all are alike, and membership (patterns, K)."""
    rows = len(members)
    parts = [(k, mask) for k, mask in enumerate(members) if mask is not None]
    if not parts:
        return None, np.ones((1, rows), dtype=bool)
    code: NDArray[np.uint16] = np.zeros(accounts, dtype=np.uint16)
    known = np.zeros((1, 0), dtype=bool)
    for begin in range(0, len(parts), 8):
        block = parts[begin : begin + 8]
        bits = np.zeros(accounts, dtype=np.uint8)
        for _, mask in reversed(block):
            bits += bits
            bits |= mask.view(np.uint8)
        if len(parts) <= FEW_GROUPS:
            code, seen = bits.astype(np.uint16), np.arange(1 << len(block))
        else:
            joined = code.astype(np.int64) << 8 | bits
            count = np.bincount(joined)
            seen = np.flatnonzero(count)
            if seen.size > MOST_PATTERNS:
                raise InvalidProblem(
                    f"the members overlap in more than {MOST_PATTERNS:,} different ways; the kernel cannot distinguish "
                    "more, so merge groups",
                    field="resources",
                )
            renumber = np.zeros(count.size, dtype=np.uint16)
            renumber[seen] = np.arange(seen.size)
            code = renumber[joined]
        fresh = (seen[:, None] & 255) >> np.arange(len(block)) & 1 > 0
        known = np.hstack([known[seen >> 8], fresh])
    membership = np.ones((known.shape[0], rows), dtype=bool)
    membership[:, [k for k, _ in parts]] = known
    return code, membership


def _spread(row: Row, place: dict[int, int]) -> NetCost:
    """A row's cost with one weight for each plane of the problem."""
    depth = row.cost.offset.size
    weights = [np.zeros(depth) for _ in place]
    for plane, weight in zip(row.planes, row.cost.weights, strict=True):
        weights[place[id(plane)]] += weight
    measured = 1 + place[id(row.planes[row.cost.measured - 1])] if row.cost.measured else 0
    return NetCost(row.cost.offset, tuple(weights), measured)
