"""Readouts of a batch of voucher graphs and their gradients: graphs.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.encoders.kernel.compiled import INSTRUCTIONS, LIBRARY, Pointer, checked

WIDTH = 16
"""Numbers of a node after a convolution; the constant of the same name in graphs.c."""

Index = NDArray[np.int64]
_GIVEN = ("first", "length", "slot", "fixed", "kind", "code", "own", "own_code")
_LAYER = ("rel", "bias", "root", "select")


class _Graphs(ctypes.Structure):
    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("graphs", "members", "inputs", "codes", "nearest", "longest")],
        ("ratio", ctypes.c_double),
        *[(name, Pointer) for name in _GIVEN],
        ("learned", Pointer),
        *[(name, Pointer * 2) for name in (*_LAYER, "h", "gate", "stays", "left")],
        *[(name, Pointer) for name in ("out", "out_bias", "readout", "whole", "before")],
    )


class _Gradients(ctypes.Structure):
    _fields_ = (
        *[(name, Pointer) for name in ("whole", "before", "out", "out_bias", "learned")],
        *[(name, Pointer * 2) for name in _LAYER],
    )


@dataclass(frozen=True, eq=False)
class Given:
    """What a pass reads of B members: G graphs of together N nodes.

    members    B
    nodes      N
    nearest    Z: items tied to the voucher
    ratio      of nodes that pooling keeps
    first      (G,): where each graph's nodes begin in ``kind`` and ``code``, with its voucher
    length     (G,): nodes of each graph
    slot       (G,): four times its member, and its group
    fixed      float32 (K, 16): an item's first columns, beside what is learned; or None
    kind       int32 (M,) of M nodes: row of ``fixed``, None with it; not read at vouchers
    code       int32 (M,): row of ``learned``, or None where it is the node's own place; not read at vouchers
    own        float32 (G, F − 16): a voucher's last columns, beside what is learned; None with ``fixed``
    own_code   (G,)
    """

    members: int
    nodes: int
    nearest: int
    ratio: float
    first: Index
    length: Index
    slot: Index
    fixed: NDArray[np.float32] | None
    kind: NDArray[np.int32] | None
    code: NDArray[np.int32] | None
    own: NDArray[np.float32] | None
    own_code: Index


class GraphPass:
    """One batch: :meth:`forth` to an embedding of each member, then :meth:`back` to the gradients.

    ``stays`` (2, N) are the nodes that the pooling of each layer keeps. ``learned`` is (T, F). ``weights`` are, for
    each layer in turn, rel (16, F or 16), bias (16,), root as rel, and select (16,); then out (16, 4 · 32) and its bias
    (16,). All are contiguous and of one type, float32 or float64.

    O(N · 16 · (F + 16)).
    """

    def __init__(self, given: Given, learned: Tensor, weights: Sequence[Tensor]) -> None:
        self.is_double = learned.dtype == torch.float64
        arrays = [None if (each := getattr(given, name)) is None else np.ascontiguousarray(each) for name in _GIVEN]
        nodes, graphs, size = given.nodes, given.length.size, learned.element_size()
        # Of each layer h, then its gates, and at last the readouts.
        room = learned.new_empty(2 * nodes * (WIDTH + 1) + graphs * 2 * WIDTH)
        left = torch.empty(2 * graphs, dtype=torch.int32)
        self.stays = torch.empty(2, nodes, dtype=torch.bool)
        self.given, self.learned, self.weights = given, learned, weights
        self.held = (arrays, room, left)  # the structure has only addresses
        at = room.data_ptr()
        self.at = _Graphs(
            graphs=graphs,
            members=given.members,
            inputs=learned.shape[1],
            codes=learned.shape[0],
            nearest=given.nearest,
            longest=int(given.length.max(initial=0)),
            ratio=given.ratio,
            learned=learned.data_ptr(),
            h=(at, at + nodes * WIDTH * size),
            gate=(at + 2 * nodes * WIDTH * size, at + nodes * (2 * WIDTH + 1) * size),
            stays=(self.stays.data_ptr(), self.stays.data_ptr() + nodes),
            left=(left.data_ptr(), left.data_ptr() + 4 * graphs),
            readout=at + 2 * nodes * (WIDTH + 1) * size,
            **{name: array.ctypes.data for name, array in zip(_GIVEN, arrays, strict=True) if array is not None},
        )
        _point(self.at, weights)

    def forth(self, *, split: bool = False) -> tuple[Tensor, Tensor | None]:
        """(B, 16) from all graphs of each member and, if ``split``, from those before the collection alone."""
        assert LIBRARY is not None
        whole = self.learned.new_empty(self.given.members, WIDTH)
        before = torch.empty_like(whole) if split else None
        self.at.whole, self.at.before = whole.data_ptr(), None if before is None else before.data_ptr()
        checked(LIBRARY.graphs_forth(ctypes.byref(self.at), self.is_double, INSTRUCTIONS))
        return whole, before

    def back(self, whole: Tensor | None, before: Tensor | None = None) -> list[Tensor]:
        """Gradients of ``learned`` and the weights, from those of the embeddings."""
        assert LIBRARY is not None
        asked = [None if each is None else each.contiguous() for each in (whole, before)]
        found = [torch.zeros_like(each) for each in (self.learned, *self.weights)]
        out = _Gradients(*[None if each is None else each.data_ptr() for each in asked], learned=found[0].data_ptr())
        _point(out, found[1:])
        checked(LIBRARY.graphs_back(ctypes.byref(self.at), ctypes.byref(out), self.is_double, INSTRUCTIONS))
        return found


def _point(at: _Graphs | _Gradients, weights: Sequence[Tensor]) -> None:
    to = [each.data_ptr() for each in weights]
    for k, name in enumerate(_LAYER):
        setattr(at, name, (to[k], to[k + 4]))
    at.out, at.out_bias = to[8:]
