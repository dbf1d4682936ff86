"""Descent along the edges of the dual of a problem with several budgets."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import kernel
from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import ActiveSet, Levels, power_of_two

FEASIBLE = 1e-11
"""Shares and slacks may be negative by so much, in units of an account and of a row's largest cost."""

ROUNDING = 2.0**-44
"""Share of a direction below which a number is rounding."""

PIVOT = 1e-10
"""A change of level whose charge moves less than this along a direction ends no descent: as a condition it would all
but coincide with those that hold."""

NEARBY = 0.02
"""Reach of the first line search, as a share of the largest price."""

FARTHER = 16.0
"""Factor by which the second search reaches farther; the third one is unlimited."""

ALL = np.ones(1)
"""Every account counts."""

PATIENCE = 60
"""Steps allowed per limit, and 10 limits more, before a descent counts as stalled."""


@dataclass(frozen=True, eq=False)
class Vertex:
    """An optimum of an active set.

    prices   (K,), λ in the problem's units
    level    (n,), best level of each account, and one of the tied levels of the split ones
    account  (e,), the split accounts, once for each tied level
    tied     (e,), the level
    share    (e,), how many of the account's copies are on it
    ray      (K,) or None: a direction in which the dual falls for ever; the limits contradict each other
    steps    how many steps it took
    """

    prices: NDArray[np.float64]
    level: Levels
    account: Levels
    tied: Levels
    share: NDArray[np.float64]
    ray: NDArray[np.float64] | None
    steps: int


class Edge(NamedTuple):
    """End of a move: after ``length``, two levels of an account tie, or (account −1) a row meets its bound."""

    length: float
    account: int
    pair: tuple[int, int]


class Descent:
    """The state of one descent, in the active set's units."""

    def __init__(
        self,
        active: ActiveSet,
        capacity: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        slack: NDArray[np.float64],
        start: NDArray[np.float64],
        perturbation: float,
    ) -> None:
        self.active, self.capacity, self.lower, self.upper = active, capacity, lower, upper
        self.tolerance = FEASIBLE + slack
        noise = np.random.default_rng(active.accounts).random(active.value.shape)
        self.value = active.value + perturbation * noise
        prices = np.clip(start, lower, upper)
        self.prices = np.where(np.isfinite(prices), prices, 0.0)
        # Conditions: rows whose price is held where it is, and tied levels of accounts.
        self.held: list[int] = list(range(capacity.size))
        self.ties: dict[int, list[int]] = {}
        self.mask = active.allowed.copy()
        self.net = NetCost(np.zeros(active.value.shape[0]), (np.ones(active.value.shape[0]),))
        self.score = active.value
        self.steps = 0

    def run(self) -> Vertex | None:
        """Descend to the optimum or along a ray; None where the steps run out."""
        for steps in range(PATIENCE * (self.capacity.size + 10)):
            self.steps = steps
            try:
                inverse: Matrix = np.asarray(np.linalg.inv(self._basis()), dtype=np.float64)
            except np.linalg.LinAlgError:
                return None
            self.prices = self._prices(inverse, self.value)
            self.score = np.where(self.active.allowed, self.value - self.active.charge(self.prices), -np.inf)
            weights = inverse @ self._goal()
            leaving = self._leaving(weights, inverse)
            if leaving < 0:
                return self._result(self._prices(inverse, self.active.value), weights, None)
            direction = self._direction(inverse, leaving, -float(np.sign(weights[leaving])))
            edge = self._lowest(direction, -abs(float(weights[leaving])), leaving)
            if edge is None:
                return self._result(np.full(direction.size, np.nan), weights, direction)
            self._exchange(leaving, edge, direction)
        return None

    def _prices(self, inverse: Matrix, value: Matrix) -> NDArray[np.float64]:
        """The prices at which the conditions hold."""
        account, level = self._tied()
        at = np.concatenate([value[level, account], self.prices[self.held]])
        prices = np.clip((at @ inverse)[: self.capacity.size], self.lower, self.upper)
        prices[self.held] = self.prices[self.held]
        return np.asarray(prices)

    def _direction(self, inverse: Matrix, leaving: int, sign: float) -> NDArray[np.float64]:
        """(K,): direction of the prices when one condition is given up and the others hold."""
        direction = sign * inverse[leaving, : self.capacity.size]
        direction[np.abs(direction) < ROUNDING * np.abs(direction).max()] = 0.0
        # What is held stays where it is, to the last bit.
        direction[self.held] = 0.0
        ties = inverse.shape[0] - len(self.held)
        if leaving >= ties:
            direction[self.held[leaving - ties]] = sign
        return np.asarray(direction)

    def _basis(self) -> Matrix:
        """The conditions as columns, tied levels and then held rows, over the rows and the split accounts."""
        rows, (account, level) = self.capacity.size, self._tied()
        position = {tie: rows + at for at, tie in enumerate(self.ties)}
        basis = np.zeros((rows + len(position), account.size + len(self.held)))
        basis[:rows, : account.size] = self.active.columns(account, level)
        basis[[position[name] for name in account.tolist()], np.arange(account.size)] = 1.0
        basis[self.held, account.size + np.arange(len(self.held))] = 1.0
        return basis

    def _goal(self) -> NDArray[np.float64]:
        """Right-hand side of the conditions: the remaining amount of each row, and the copies of each split account."""
        split = list(self.ties)
        counts = self.active.times.copy()
        counts[split] = 0.0
        return np.concatenate([self.capacity - self.active.taken(self._level(), counts), self.active.times[split]])

    def _tied(self) -> tuple[Levels, Levels]:
        pairs = np.array([(i, j) for i, levels in self.ties.items() for j in levels], dtype=np.intp).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _level(self) -> Levels:
        level = np.asarray(self.score.argmax(axis=0), dtype=np.intp)
        for account, levels in self.ties.items():
            level[account] = levels[0]
        return level

    def _leaving(self, weights: NDArray[np.float64], inverse: Matrix) -> int:
        """The condition whose giving up lets the dual fall most steeply; −1 where none does."""
        ties = weights.size - len(self.held)
        wrong = np.abs(weights)
        wrong[:ties][weights[:ties] >= -FEASIBLE] = 0.0
        for at, row in enumerate(self.held):
            left, price = weights[ties + at], self.prices[row]
            # Money may be left over where the price is at its lower bound, and lacking where it is at its upper.
            right = price <= self.lower[row] if left > 0 else price >= self.upper[row]
            if right or abs(left) <= self.tolerance[row]:
                wrong[ties + at] = 0.0
        if not wrong.any():
            return -1
        # Steepest edge: per unit of the length of the way.
        length = np.sqrt((inverse[:, : self.capacity.size] ** 2).sum(axis=1))
        return int((wrong / np.maximum(length, 1e-300)).argmax())

    def _lowest(self, direction: NDArray[np.float64], slope: float, leaving: int) -> Edge | None:
        """The condition that ends the descent along a direction; None where there is none."""
        # Charges that differ by rounding alone are made equal: a change between them would end no descent.
        grain = ROUNDING * float(power_of_two(np.abs(direction).max()))
        fall = np.rint(self.active.charge(direction) / grain) * grain
        account, level = self._tied()
        given_up = (int(account[leaving]), int(level[leaving])) if leaving < account.size else (-1, -1)
        split = list(self.ties)
        # The tied levels of an account stay together along the way: one stands for all. The one given up falls behind.
        free = self.active.allowed[:, split].copy()
        final = np.zeros(self.active.accounts, dtype=bool)
        for at, tied in enumerate(split):
            stays = [j for j in self.ties[tied] if (tied, j) != given_up]
            free[self.ties[tied], at] = False
            free[stays[0], at] = True
            final[tied] = len(stays) > 1
        self.mask[:, split] = free
        edge = self._along(direction, fall, slope, final)
        self.mask[:, split] = self.active.allowed[:, split]
        return edge

    def _along(
        self, direction: NDArray[np.float64], fall: Matrix, slope: float, final: NDArray[np.bool_]
    ) -> Edge | None:
        """Find the point where the dual, falling with ``slope`` at first, stops falling. Near points come first."""
        limit, row = self._bound(direction)
        enough = -float(np.abs(direction) @ self.tolerance)
        near = max(NEARBY * float(np.abs(self.prices).max()), NEARBY**2) / float(np.abs(direction).max())
        for reach in (near, FARTHER * near, limit):
            edges = kernel.climb(Tile(self.score, (fall,), None, self.mask), self.net, ALL, 0.0, min(reach, limit))
            real = np.flatnonzero(edges.step > PIVOT * float(np.abs(direction).max()))
            order = real[np.argsort(edges.slope[real], kind="stable")]
            passed = slope + np.cumsum((edges.step * self.active.times[edges.account])[order])
            crossing = int(np.searchsorted(passed, enough))
            # Beyond a change of an account that stays split its tie would be lost, and with it the edge.
            barred = final[edges.account[order]]
            if barred.any():
                crossing = min(crossing, int(barred.argmax()))
            if crossing < order.size:
                edge = order[crossing]
                owner, length = int(edges.account[edge]), float(edges.slope[edge])
                return Edge(length, owner, self._pair(owner, length, fall[:, owner], float(edges.step[edge])))
            if reach >= limit:
                break
        return Edge(limit, -1, (row, row)) if np.isfinite(limit) else None

    def _bound(self, direction: NDArray[np.float64]) -> tuple[float, int]:
        """Return the distance until a row's price reaches its bound, and the index of that row."""
        bound = np.where(direction < 0, self.lower, self.upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(direction != 0, (bound - self.prices) / direction, np.inf)
        far = np.where(np.isfinite(far), np.maximum(far, 0.0), np.inf)
        row = int(far.argmin()) if far.size else -1
        return (float(far[row]), row) if far.size else (np.inf, -1)

    def _pair(self, owner: int, length: float, fall: NDArray[np.float64], step: float) -> tuple[int, int]:
        """The two levels of an account that tie at the end of the way, whose charges differ by ``step``."""
        score = np.where(self.mask[:, owner], self.score[:, owner] - length * fall, -np.inf)
        sums = score[:, None] + score[None, :]
        sums[np.abs(fall[:, None] - fall[None, :] - step) > 1e-9 * step] = -np.inf
        before, after = np.unravel_index(int(sums.argmax()), sums.shape)
        return int(before), int(after)

    def _exchange(self, leaving: int, edge: Edge, direction: NDArray[np.float64]) -> None:
        """Give up one condition, move, and add the other."""
        account, level = self._tied()
        if leaving >= account.size:
            self.held.pop(leaving - account.size)
        else:
            self.ties[int(account[leaving])].remove(int(level[leaving]))
        self.prices = np.clip(self.prices + edge.length * direction, self.lower, self.upper)
        if edge.account < 0:
            row = edge.pair[0]
            self.prices[row] = self.lower[row] if direction[row] < 0 else self.upper[row]
            self.held.append(row)
        # An account with one level left is split no longer; it may have passed that level by.
        self.ties = {tied: levels for tied, levels in self.ties.items() if len(levels) > 1}
        if edge.account >= 0:
            known = self.ties.setdefault(edge.account, [])
            known.extend(j for j in edge.pair if j not in known)

    def _result(
        self, prices: NDArray[np.float64], weights: NDArray[np.float64], ray: NDArray[np.float64] | None
    ) -> Vertex:
        account, tied = self._tied()
        return Vertex(
            prices * self.active.worth / self.active.unit,
            self._level(),
            account,
            tied,
            np.maximum(weights[: account.size], 0.0),
            None if ray is None else ray / self.active.unit,
            self.steps,
        )
