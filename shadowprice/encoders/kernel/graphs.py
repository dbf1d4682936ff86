"""Readouts of a batch of voucher graphs and their gradients: graphs.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.encoders.kernel.library import INSTRUCTIONS, LIBRARY, Pointer, checked

WIDTH = 16
"""Numbers of a node after a convolution; the constant of the same name in graphs.c."""

Index = NDArray[np.int64]
_GIVEN = ("first", "length", "slot", "row", "fixed", "code", "own_fixed", "own_code")
_WEIGHTS = ("rel", "bias", "root", "select")


class _Graphs(ctypes.Structure):
    _fields_ = (
        ("graphs", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("codes", ctypes.c_int64),
        ("nearest", ctypes.c_int64),
        ("longest", ctypes.c_int64),
        ("ratio", ctypes.c_double),
        *[(name, Pointer) for name in _GIVEN],
        ("learned", Pointer),
        *[(name, Pointer * 2) for name in (*_WEIGHTS, "h", "gate", "stays")],
        ("readout", Pointer),
    )


class _Gradients(ctypes.Structure):
    _fields_ = (("readout", Pointer), ("learned", Pointer), *[(name, Pointer * 2) for name in _WEIGHTS])


@dataclass(frozen=True, eq=False)
class Given:
    """What a pass reads: G graphs of together N nodes; all arrays are contiguous.

    slots      readouts there are, of which graphs fill G
    nodes      N
    nearest    Z: items tied to the voucher
    ratio      of nodes that pooling keeps
    first      (G,): place in ``row`` of each graph's first node, its voucher
    length     (G,): nodes of each graph
    slot       (G,): where its readout goes; the remainder by four is its group
    row        behaviour of each node; not read at vouchers
    fixed      float32 (behaviours, F), or None
    code       (behaviours,): row of ``learned``, or None where it is the behaviour itself
    own_fixed  float32 (G, F) of the graphs' vouchers, or None with ``fixed``
    own_code   (G,)
    """

    slots: int
    nodes: int
    nearest: int
    ratio: float
    first: Index
    length: Index
    slot: Index
    row: Index
    fixed: NDArray[np.float32] | None
    code: Index | None
    own_fixed: NDArray[np.float32] | None
    own_code: Index


class GraphPass:
    """One batch: :meth:`forth` to the readouts, then :meth:`back` to the gradients.

    ``learned`` is (T, F), ``weights`` are, for each layer in turn, rel (16, F or 16), bias (16,), root as rel, and
    select (16,), all contiguous and of one type, float32 or float64. O(N · 16 · (F + 16)).
    """

    def __init__(self, given: Given, learned: Tensor, weights: Sequence[Tensor]) -> None:
        self.is_double = learned.dtype == torch.float64
        arrays = [
            None if (given_one := getattr(given, name)) is None else np.ascontiguousarray(given_one) for name in _GIVEN
        ]
        self.held = (given, learned, tuple(weights), arrays)  # the structure has only addresses
        self.h, self.gate = learned.new_empty(2, given.nodes, WIDTH), learned.new_empty(2, given.nodes)
        self.stays = torch.empty(2, given.nodes, dtype=torch.uint8)
        self.at = _Graphs(
            graphs=given.length.size,
            inputs=learned.shape[1],
            codes=learned.shape[0],
            nearest=given.nearest,
            longest=int(given.length.max(initial=0)),
            ratio=given.ratio,
            learned=learned.data_ptr(),
        )
        for name, array in zip(_GIVEN, arrays, strict=True):
            setattr(self.at, name, None if array is None else array.ctypes.data)
        for layer in range(2):
            _point(self.at, layer, weights[4 * layer :])
            for name in ("h", "gate", "stays"):
                getattr(self.at, name)[layer] = getattr(self, name)[layer].data_ptr()

    def forth(self) -> Tensor:
        """(slots, 32): max ‖ mean of every graph, added up over the layers; zeros at slots without a graph."""
        assert LIBRARY is not None
        readout = self.held[1].new_zeros(self.held[0].slots, 2 * WIDTH)
        self.at.readout = readout.data_ptr()
        checked(LIBRARY.graphs_forth(ctypes.byref(self.at), self.is_double, INSTRUCTIONS))
        return readout

    def back(self, readout: Tensor) -> list[Tensor]:
        """Gradients of ``learned`` and the weights, from that of the readouts (slots, 32), contiguous."""
        assert LIBRARY is not None
        _, learned, weights, _ = self.held
        found = [torch.zeros_like(each) for each in (learned, *weights)]
        out = _Gradients(readout=readout.data_ptr(), learned=found[0].data_ptr())
        for layer in range(2):
            _point(out, layer, found[1 + 4 * layer :])
        checked(LIBRARY.graphs_back(ctypes.byref(self.at), ctypes.byref(out), self.is_double, INSTRUCTIONS))
        return found


def _point(at: _Graphs | _Gradients, layer: int, weights: Sequence[Tensor]) -> None:
    for name, tensor in zip(_WEIGHTS, weights, strict=False):
        getattr(at, name)[layer] = tensor.data_ptr()
