"""Place every account of a plan that leaves some without a segment, or prove that no such plan exists.

Augmenting paths over segments: an account without a segment enters one whose accounts can move on, and so forth to a
segment with free quota. Of several accounts that can move, those that lose least move. A path carries as many accounts
as it can.
"""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.exact_sizes.plan import NOBODY, Shortage, SizedProblem


def place_everybody(problem: SizedProblem, segment: NDArray[np.int32]) -> tuple[NDArray[np.int32], Shortage | None]:
    """Give every account a segment; those of ``segment`` (N,), within demands and eligibility, move only if they must.

    O(J·N) for each path; a path uses up an arc or fills a segment.
    """
    depth = problem.shape[0]
    segment = segment.copy()
    # Row and column of an account without a segment come last.
    while True:
        members = [np.flatnonzero(segment == a) for a in range(depth)] + [np.flatnonzero(segment == NOBODY)]
        if not members[depth].size:
            return segment, None
        free = problem.demand - np.array([group.size for group in members[:depth]])
        movable = np.array([_movable(problem, group) for group in members])
        path, reached = _path(movable > 0, free > 0)
        if not path:
            return segment, problem.shortage(~reached)
        count = min(int(free[path[-1]]), *(int(movable[a, b]) for a, b in zip([depth, *path], path, strict=False)))
        moves = [
            (_cheapest(problem, members[a], a, b, count), b) for a, b in zip([depth, *path[:-1]], path, strict=True)
        ]
        for who, to in moves:
            segment[who] = to


def _movable(problem: SizedProblem, group: NDArray[np.intp]) -> NDArray[np.int64]:
    if problem.allowed is None:
        return np.full(problem.shape[0], group.size, dtype=np.int64)
    return np.asarray(problem.allowed[:, group].sum(axis=1), dtype=np.int64)


def _path(arc: NDArray[np.bool_], free: NDArray[np.bool_]) -> tuple[list[int], NDArray[np.bool_]]:
    """Find the shortest path of segments from nobody (the last row) to free quota, and the segments within reach."""
    depth = free.size
    before = np.full(depth, -2)
    queue = [depth]
    for a in queue:
        for b in np.flatnonzero(arc[a] & (before == -2)).tolist():
            before[b] = a
            queue.append(b)
            if free[b]:
                path = [b]
                while before[path[0]] != depth:
                    path.insert(0, int(before[path[0]]))
                return path, before != -2
    return [], before != -2


def _cheapest(problem: SizedProblem, group: NDArray[np.intp], a: int, b: int, count: int) -> NDArray[np.intp]:
    if problem.allowed is not None:
        group = group[problem.allowed[b, group]]
    loss = -problem.value[b, group].astype(np.float64)
    if a < problem.shape[0]:
        loss += problem.value[a, group]
    return np.asarray(group[np.argsort(loss, kind="stable")[:count]], dtype=np.intp)
