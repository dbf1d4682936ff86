"""The sessions in the past of a step's rows, and the graphs of those and of the rows: lists.c."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from shadowprice.encoders.kernel.compiled import LIBRARY, Pointer, checked
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, Index

_FOUND = ("row", "slot", "of", "session", "graph_slot", "first", "length")


class _Lists(ctypes.Structure):
    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("rows", "most", "pairs", "past_groups")],
        *[(name, Pointer) for name in ("past", "target", "start", *_FOUND)],
        *[(name, ctypes.c_int64) for name in ("sessions", "past_graphs", "graphs")],
    )


@dataclass(frozen=True, eq=False)
class Listed:
    """P pairs of n rows and a session of their past, S sessions in the order in which they come, and G graphs.

    row, slot, of   (P,): row, place in its history, which of the S
    session         (S,): position in the log
    graph_slot      (G,): four times its member, of the S sessions and then of the n rows, and its group
    first, length   (G,): its first node, and how many
    past_graphs     how many of the G are of the S; they come first
    """

    row: Index
    slot: Index
    of: Index
    session: Index
    graph_slot: Index
    first: Index
    length: Index
    past_graphs: int


def list_sessions(past: Index, target: Index, start: Index, past_groups: int) -> Listed:
    """Of positions (n, R) of past sessions and (n,) of the rows' own, −1 for none, in a log whose graphs begin at
    ``start``; ``past_groups`` is how many of the four groups of a past session are seen. O(n · R + G)."""
    assert LIBRARY is not None
    past, target, start = (np.ascontiguousarray(each) for each in (past, target, start))
    rows, most = past.shape
    pairs = int(np.count_nonzero(past >= 0))
    graphs = len(GROUPS) * pairs + BEFORE_GROUPS * rows  # at most
    room = np.empty(4 * pairs + 3 * graphs, dtype=np.int64)
    at, middle = room.ctypes.data, 4 * pairs
    found = _Lists(
        rows,
        most,
        pairs,
        past_groups,
        *[each.ctypes.data for each in (past, target, start)],
        *[at + 8 * pairs * k for k in range(4)],
        *[at + 8 * (middle + graphs * k) for k in range(3)],
    )
    checked(LIBRARY.sessions_list(ctypes.byref(found)))
    row, slot, of, session = room[:middle].reshape(4, pairs)
    graph_slot, first, length = room[middle:].reshape(3, graphs)[:, : found.graphs]
    return Listed(row, slot, of, session[: found.sessions], graph_slot, first, length, found.past_graphs)
