"""Segment sizes when accounts arrive one after another: published prices, and quotas that are counted down.

The decision is the project's one rule, :func:`shadowprice.decision.decide`, with each segment's price as its cost. A
segment may be taken as long as every account still to come can be placed afterwards. Quotas are counted for
each class of accounts with the same eligibility, and exchanged between classes along augmenting paths. The sizes are
exact for every order of arrival.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.exact_sizes.plan import NOBODY, Plan
from shadowprice.errors import InvalidInput
from shadowprice.policy import Choices, Ids

CHUNK = 4096
"""Requests that are scored at once; they are scored again when a segment closes to a class of accounts."""


class SegmentQuota:
    """Decides requests by ``argmax value − price`` among segments with free quota.

    Build it from a plan with :meth:`of`. An account should ask once; a second request counts again.
    """

    def __init__(self, prices: NDArray[np.float64], eligible: NDArray[np.bool_], quota: NDArray[np.int64]) -> None:
        self._prices = prices
        self._eligible = eligible
        self._quota = quota
        self._class = {key.tobytes(): row for row, key in enumerate(_keys(eligible.T))}

    @classmethod
    def of(cls, plan: Plan, allowed: ArrayLike | None = None) -> SegmentQuota:
        """Return the quota of a plan with prices; ``allowed``, bool (J, N), is the eligibility of its accounts. O(J·N).

        Raises:
            InvalidInput: the plan has no prices (it is infeasible, or a heuristic's), or ``allowed`` has another shape.
        """
        if plan.status != "optimal":
            raise InvalidInput(f"needs a plan with prices, got one that is {plan.status!r}", field="plan")
        shape = (plan.prices.size, plan.segment.size)
        mask = np.ones(shape, dtype=bool) if allowed is None else np.asarray(allowed, dtype=bool)
        if mask.shape != shape:
            raise InvalidInput(f"must have shape {shape}, got {mask.shape}", field="allowed")
        _, first, of = np.unique(_keys(mask), axis=0, return_index=True, return_inverse=True)
        quota = np.zeros((first.size, shape[0]), dtype=np.int64)
        np.add.at(quota, (of.ravel(), plan.segment), 1)
        return cls(plan.prices, mask[:, first].T, quota)

    @property
    def remaining(self) -> NDArray[np.int64]:
        """(J,): accounts that each segment can still take."""
        return np.asarray(self._quota.sum(axis=0), dtype=np.int64)

    def decide(self, value: ArrayLike, request_ids: Ids, allowed: ArrayLike | None = None) -> NDArray[np.int32]:
        """int32 (n,): a segment for each request in turn; ``NOBODY`` where no quota is left for its kind.

        ``value`` is (J, n) and ``allowed`` bool (J, n), as for :func:`~shadowprice.decision.decide`. O(J·n), and a
        chunk again whenever a segment closes to a class of accounts.

        Raises:
            InvalidInput: see :func:`~shadowprice.decision.decide`.
        """
        values = np.asarray(value, dtype=np.float64)
        depth = self._prices.size
        if values.ndim != 2 or values.shape[0] != depth:
            raise InvalidInput(f"must have shape ({depth}, requests), got {values.shape}", field="value")
        mask = np.ones(values.shape, dtype=bool) if allowed is None else np.asarray(allowed)
        if mask.dtype != np.bool_ or mask.shape != values.shape:
            raise InvalidInput(f"must be boolean of shape {values.shape}", field="allowed")
        if len(request_ids) != values.shape[1]:
            raise InvalidInput(f"needs one id for each of {values.shape[1]} requests", field="request_ids")
        kind = np.array([self._class.get(key.tobytes(), -1) for key in _keys(mask)], dtype=np.intp)
        given = np.full(kind.size, NOBODY, dtype=np.int32)
        start = 0
        while start < kind.size:
            part = slice(start, start + CHUNK)
            given[part], done = self._run(values[:, part], request_ids[part], kind[part])
            start += done
        return given

    def _run(self, values: NDArray[np.float64], ids: Ids, kind: NDArray[np.intp]) -> tuple[NDArray[np.int32], int]:
        """Decide in turn until what is open changes; returns the decisions and how many were made."""
        may = self._open()[kind].T & (kind >= 0)
        able = np.flatnonzero(may.any(axis=0))
        wanted = np.full(kind.size, NOBODY, dtype=np.int32)
        if able.size:
            price = np.broadcast_to(self._prices[:, None], (self._prices.size, able.size))
            names = [str(ids[index]) for index in able.tolist()]
            wanted[able] = Choices(values[:, able], price, may[:, able]).decide([1.0], 0.0, names).level
        held = self._quota > 0
        for index in able.tolist():
            row, level = int(kind[index]), int(wanted[index])
            if not held[row, level]:
                self._exchange(row, level)
            self._quota[row, level] -= 1
            if not np.array_equal(held, self._quota > 0):
                wanted[index + 1 :] = NOBODY
                return wanted, index + 1
        return wanted, kind.size

    def _arcs(self) -> NDArray[np.bool_]:
        """(J, J): whether some class may enter segment a and leave segment b."""
        return np.asarray(self._eligible.T.astype(np.intp) @ (self._quota > 0) > 0, dtype=np.bool_)

    def _open(self) -> NDArray[np.bool_]:
        """(classes, J): segments a class may take so that every later account can be placed; O(classes·J² + J³)."""
        reach = self._arcs() | np.eye(self._prices.size, dtype=bool)
        for middle in range(self._prices.size):
            reach |= reach[:, middle : middle + 1] & reach[middle]
        return np.asarray(self._eligible & ((self._quota > 0).astype(np.intp) @ reach > 0), dtype=np.bool_)

    def _exchange(self, row: int, level: int) -> None:
        """Exchange quota with other classes along a shortest path, so that a class gains one of ``level``."""
        arcs = self._arcs()
        before = np.where(self._quota[row] > 0, -1, -2)
        queue = np.flatnonzero(before == -1).tolist()
        for a in queue:
            for b in np.flatnonzero(arcs[a] & (before == -2)).tolist():
                before[b] = a
                queue.append(b)
        b = level
        while before[b] != -1:
            a = int(before[b])
            other = int(np.flatnonzero(self._eligible[:, a] & (self._quota[:, b] > 0))[0])
            self._quota[other, b] -= 1
            self._quota[other, a] += 1
            b = a
        self._quota[row, b] -= 1
        self._quota[row, level] += 1


def _keys(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n, bytes): eligibility of each account, (J, n), packed."""
    return np.ascontiguousarray(np.packbits(mask, axis=0).T)
