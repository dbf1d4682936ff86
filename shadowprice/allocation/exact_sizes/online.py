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
    """Decides the accounts of a plan by ``argmax value − price`` among segments with free quota.

    Build it from a plan with :meth:`of`. It holds the segments that each account of the plan may enter, so that no call
    can leave them out. An account that asks again gets its segment again.
    """

    def __init__(self, plan: Plan, account_id: Ids, eligible: NDArray[np.bool_], kind: NDArray[np.intp]) -> None:
        self._prices = plan.prices
        self._eligible = eligible
        self._kind = kind
        self._quota = np.zeros(eligible.shape, dtype=np.int64)
        np.add.at(self._quota, (kind, plan.segment), 1)
        self._row = {str(name): row for row, name in enumerate(account_id)}
        self._segment = np.full(kind.size, NOBODY, dtype=np.int32)

    @classmethod
    def of(cls, plan: Plan, account_id: Ids) -> SegmentQuota:
        """Return the quota of a plan with prices; ``account_id``, (N,), are its accounts in order. O(J·N).

        Raises:
            InvalidInput: the plan has no prices (it is infeasible, or a heuristic's), or ``account_id`` has another
                length or an account twice.
        """
        if plan.status != "optimal":
            raise InvalidInput(f"needs a plan with prices, got one that is {plan.status!r}", field="plan")
        count = plan.segment.size
        if len(account_id) != count or len({str(name) for name in account_id}) != count:
            raise InvalidInput(f"must be {count} different accounts, those of the plan", field="account_id")
        if plan.allowed is None:
            return cls(plan, account_id, np.ones((1, plan.prices.size), dtype=bool), np.zeros(count, dtype=np.intp))
        packed = np.ascontiguousarray(np.packbits(plan.allowed, axis=0).T)
        _, first, of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        return cls(plan, account_id, plan.allowed[:, first].T, of.ravel())

    @property
    def remaining(self) -> NDArray[np.int64]:
        """(J,): accounts that each segment can still take."""
        return np.asarray(self._quota.sum(axis=0), dtype=np.int64)

    def decide(self, value: ArrayLike, account_id: Ids) -> NDArray[np.int32]:
        """int32 (n,): a segment for each account in turn; ``NOBODY`` for an account that is not in the plan.

        ``value`` is (J, n), as for :func:`~shadowprice.decision.decide`. O(J·n), and a chunk again whenever a segment
        closes to a class of accounts.

        Raises:
            InvalidInput: see :func:`~shadowprice.decision.decide`.
        """
        values = np.asarray(value, dtype=np.float64)
        depth = self._prices.size
        if values.ndim != 2 or values.shape[0] != depth:
            raise InvalidInput(f"must have shape ({depth}, accounts), got {values.shape}", field="value")
        if len(account_id) != values.shape[1]:
            raise InvalidInput(f"needs one for each of {values.shape[1]} columns of value", field="account_id")
        names = [str(name) for name in account_id]
        row = np.array([self._row.get(name, -1) for name in names], dtype=np.intp)
        asks, first = np.unique(row, return_index=True)
        open_ = np.sort(first[(asks >= 0) & (self._segment[asks] == NOBODY)])
        start = 0
        while start < open_.size:
            part = open_[start : start + CHUNK]
            chosen, done = self._run(values[:, part], [names[index] for index in part.tolist()], self._kind[row[part]])
            self._segment[row[part[:done]]] = chosen[:done]
            start += done
        return np.where(row >= 0, self._segment[row], NOBODY).astype(np.int32)

    def _run(
        self, values: NDArray[np.float64], names: list[str], kind: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], int]:
        """Decide in turn until what is open changes; returns the decisions and how many were made."""
        price = np.broadcast_to(self._prices[:, None], values.shape)
        # The plan places every account, so that each of them finds an open segment.
        wanted = Choices(values, price, self._open()[kind].T).decide([1.0], 0.0, names).level.astype(np.int32)
        held = self._quota > 0
        for index, (row, level) in enumerate(zip(kind.tolist(), wanted.tolist(), strict=True)):
            if not held[row, level]:
                self._exchange(row, level)
            self._quota[row, level] -= 1
            if not np.array_equal(held, self._quota > 0):
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
