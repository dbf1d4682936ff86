"""Readouts of a batch of voucher graphs and their gradients: graphs.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shadowprice.encoders.kernel.compiled import INSTRUCTIONS, LIBRARY, TEAM, Pointer, checked, zeros_like
from shadowprice.encoders.voucher_nodes import Nodes
from shadowprice.graphs.voucher_graphs import GraphBatch, TargetBatch

WIDTH = 16
"""Numbers of a node after a convolution; the constant of the same name in graphs.c."""

LEARNED = 2
"""Most pieces of the table that are learned; the constant of the same name in graphs.c."""

_OF_NODES = ("fixed", "kind", "code", "own", "own_code")
_LAYER = ("rel", "bias", "root", "select")


class _Learned(ctypes.Structure):
    _fields_ = (("values", Pointer), *[(name, ctypes.c_int64) for name in ("rows", "width", "first", "times")])


class Graphs(ctypes.Structure):
    """The structure of the same name in graphs.c."""

    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("graphs", "members", "inputs", "codes", "nearest", "longest", "targets")],
        ("ratio", ctypes.c_double),
        ("team", Pointer),
        ("threads", ctypes.c_int64),
        *[(name, Pointer) for name in ("first", "length", "slot", *_OF_NODES)],
        ("base", Pointer),
        ("pieces", ctypes.c_int64),
        ("piece", _Learned * LEARNED),
        *[(name, Pointer * 2) for name in (*_LAYER, "h", "gate", "stays", "left")],
        *[(name, Pointer) for name in ("out", "out_bias", "readout", "whole", "before")],
    )


class GraphGradients(ctypes.Structure):
    """``gradients`` in graphs.c."""

    _fields_ = (
        *[(name, Pointer) for name in ("whole", "before", "out", "out_bias")],
        ("learned", Pointer * LEARNED),
        *[(name, Pointer * 2) for name in _LAYER],
    )


class GraphPass:
    """One batch: :meth:`forth` to an embedding of each member, then :meth:`back` to the gradients.

    ``ratio`` is how many of the nodes pooling keeps; ``stays`` (2, N) are those that the pooling of each layer keeps.
    ``weights`` are, for each layer in turn, rel (16, F or 16), bias (16,), root as rel, and select (16,); then out
    (16, 4 · 32) and its bias (16,). All are contiguous and of one type, float32 or float64.

    As many threads as torch has compute, its own; results do not depend on their number. O(N · 16 · (F + 16)).
    """

    def __init__(self, nodes: Nodes, batch: GraphBatch, ratio: float, weights: Sequence[Tensor]) -> None:
        table, learned = nodes.base, [each.values.detach().contiguous() for each in nodes.learned]
        arrays = [nodes.first, batch.length, batch.slot, *(getattr(nodes, name) for name in _OF_NODES)]
        arrays = [None if each is None else np.ascontiguousarray(each) for each in arrays]
        count, graphs, size = batch.nodes, batch.length.size, table.element_size()
        # Of each layer h, then its gates, and at last the readouts.
        room = table.new_empty(2 * count * (WIDTH + 1) + graphs * 2 * WIDTH)
        left = torch.empty(2 * graphs, dtype=torch.int32)
        self.is_double = table.dtype == torch.float64
        self.stays = torch.empty(2, count, dtype=torch.bool)
        self.members, self.tensors = batch.size, [*learned, *weights]
        self.held = (arrays, room, left, table)  # the structure has only addresses
        at, left_at, stays_at = room.data_ptr(), left.data_ptr(), self.stays.data_ptr()
        second = at + count * WIDTH * size
        gates = second + count * WIDTH * size
        self.at = Graphs(
            graphs,
            batch.size,
            *table.shape[::-1],
            batch.nearest,
            int(batch.length.max(initial=0)),
            batch.size if isinstance(batch, TargetBatch) else 0,
            ratio,
            TEAM,
            torch.get_num_threads(),
            *[None if each is None else each.ctypes.data for each in arrays],
            table.data_ptr(),
            len(learned),
            tuple(
                (values.data_ptr(), *values.shape, part.first, part.times)
                for values, part in zip(learned, nodes.learned, strict=True)
            ),
            *layers([each.data_ptr() for each in weights]),
            (at, second),
            (gates, gates + count * size),
            (stays_at, stays_at + count),
            (left_at, left_at + 4 * graphs),
            *[each.data_ptr() for each in weights[8:]],
            gates + 2 * count * size,
        )

    def forth(self, *, split: bool = False) -> tuple[Tensor, Tensor | None]:
        """(B, 16) from all graphs of each member and, if ``split``, from those before the collection alone."""
        assert LIBRARY is not None
        whole = self.tensors[0].new_empty(self.members, WIDTH)
        before = torch.empty_like(whole) if split else None
        self.at.whole, self.at.before = whole.data_ptr(), None if before is None else before.data_ptr()
        checked(LIBRARY.graphs_forth(ctypes.byref(self.at), self.is_double, INSTRUCTIONS))
        return whole, before

    def back(self, whole: Tensor | None, before: Tensor | None = None) -> list[Tensor]:
        """Gradients of what is learned and of the weights, from those of the embeddings."""
        assert LIBRARY is not None
        asked = [None if each is None else each.contiguous() for each in (whole, before)]
        found = zeros_like(self.tensors)
        learned, weights = found[:-10], found[-10:]
        out = GraphGradients(
            *[None if each is None else each.data_ptr() for each in asked],
            *[each.data_ptr() for each in weights[8:]],
            tuple(each.data_ptr() for each in learned),
            *layers([each.data_ptr() for each in weights]),
        )
        checked(LIBRARY.graphs_back(ctypes.byref(self.at), ctypes.byref(out), self.is_double, INSTRUCTIONS))
        return found


def layers(weights: Sequence[int]) -> list[tuple[int, int]]:
    """rel, bias, root and select of both layers each, from the addresses of a :class:`GraphPass`'s weights."""
    return list(zip(weights[:4], weights[4:8], strict=True))
