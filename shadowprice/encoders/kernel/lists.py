"""A log as steps read it, and the structure of what a step lists of it: lists.c."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.encoders.kernel.compiled import Pointer
from shadowprice.graphs.voucher_graphs import Index

OF_LOG = ("start", "of_session", "of_level", "session_terms", "level_terms")
OF_NODES = ("items", "kind", "side")
LISTED = ("row", "slot", "of", "session", "graph_slot", "first", "length", "code", "own_code", "own")


class Lists(ctypes.Structure):
    """The structure of the same name in lists.c."""

    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("rows", "most", "logged", "offers", "past_groups")],
        *[(name, Pointer) for name in ("past", "target", "level", *OF_LOG)],
        ("above", ctypes.c_int64),
        *[(name, Pointer) for name in LISTED],
        *[(name, ctypes.c_int64) for name in ("pairs", "sessions", "graphs", "nodes", "longest")],
    )


@dataclass(frozen=True, eq=False)
class Logged:
    """A log of S sessions and J vouchers on offer.

    start           int64 (4 · S + 1,): first node of every graph
    of_session      int64 (S,), of_level (J,): code of the voucher
    session_terms   float32 (S, 2), level_terms (J, 2): its numbers
    items           float32 (kinds, 16) that stand at nodes
    kind, side      int32 (nodes,): row of ``items``, and of the table of what is learned; not read at vouchers
    above           rows of that table above the vouchers: all categories at every price, of which there are ``prices``
    nearest         nodes of a graph that are tied to the voucher
    """

    start: Index
    of_session: Index
    of_level: Index
    session_terms: NDArray[np.float32]
    level_terms: NDArray[np.float32]
    items: NDArray[np.float32]
    kind: NDArray[np.int32]
    side: NDArray[np.int32]
    above: int
    prices: int
    nearest: int

    def __post_init__(self) -> None:
        for name in (*OF_LOG, *OF_NODES):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))
