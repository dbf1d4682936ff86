"""What rows read of their histories, and its gradient: histories.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.encoders.kernel.compiled import INSTRUCTIONS, LIBRARY, TEAM, Pointer, checked, zeros_like

HALF = 16
"""Numbers of either part of an embedding; the constant of the same name in histories.c."""
UNITS = 64
"""Of the attention; the constant of the same name in histories.c."""

Index = NDArray[np.int64]
_GIVEN = ("row", "slot", "session", "code")
_TENSORS = ("own", "offer", "weight", "bias", "slope", "last", "shift")


class Histories(ctypes.Structure):
    """The structure of the same name in histories.c."""

    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("rows", "sessions", "pairs", "most", "codes", "average")],
        ("team", Pointer),
        ("threads", ctypes.c_int64),
        *[(name, Pointer) for name in (*_GIVEN, *_TENSORS)],
        *[(name, Pointer) for name in ("before", "weights", "scores", "read", "auxiliary")],
    )


class HistoryGradients(ctypes.Structure):
    """``history_gradients`` in histories.c."""

    _fields_ = (("stride", ctypes.c_int64), *[(name, Pointer) for name in ("read", "auxiliary", *_TENSORS)])


@dataclass(frozen=True, eq=False)
class Given:
    """Which sessions are the past of which row: P pairs of n rows and S sessions;

    rows     n
    sessions S
    most     R
    average  whether past sessions are averaged; else they are attended to
    row      (P,): ascending
    slot     (P,): place in the row's history
    session  (P,): which of the S
    code     (S + n,): row of ``offer``, of the sessions and then of the rows
    """

    rows: int
    sessions: int
    most: int
    average: bool
    row: Index
    slot: Index
    session: Index
    code: Index


class HistoryPass:
    """One batch: :meth:`forth` to what is read, then :meth:`back` to the gradients.

    ``tensors`` are own (S + n, 16), offer (T, 16) and, of the attention, weight (64, 128), bias, slope and last (64,
    each) and shift (1,), all contiguous and of one type, float32 or float64. O((P + S + n) · 64 · 32).
    """

    def __init__(self, given: Given, tensors: Sequence[Tensor]) -> None:
        indices = [np.ascontiguousarray(getattr(given, name)) for name in _GIVEN]
        self.held = (given, tuple(tensors), indices)  # the structure has only addresses
        own = tensors[0]
        pairs = given.row.size
        self.is_double = own.dtype == torch.float64
        self.kept = own.new_empty(pairs * (0 if given.average else UNITS) + pairs + given.sessions)
        size = self.kept.element_size()
        weights = self.kept.data_ptr() + (pairs * UNITS * size if not given.average else 0)
        self.at = Histories(
            given.rows,
            given.sessions,
            pairs,
            given.most,
            tensors[1].shape[0],
            given.average,
            TEAM,
            torch.get_num_threads(),
            *[index.ctypes.data for index in indices],
            *[tensor.data_ptr() for tensor in tensors],
            self.kept.data_ptr(),
            weights,
            weights + pairs * size,
        )

    def forth(self) -> tuple[Tensor, Tensor]:
        """(n, 64 + R + 3): Σ w·e, the row's own e, scores by place and their max, mean, min; and (n,) mean −log s."""
        assert LIBRARY is not None
        given, tensors, _ = self.held
        read = tensors[0].new_empty(given.rows, 4 * HALF + given.most + 3)
        auxiliary = tensors[0].new_empty(given.rows)
        self.at.read, self.at.auxiliary = read.data_ptr(), auxiliary.data_ptr()
        checked(LIBRARY.histories_forth(ctypes.byref(self.at), self.is_double, INSTRUCTIONS))
        return read, auxiliary

    def back(self, read: Tensor, auxiliary: Tensor) -> list[Tensor]:
        """Gradients of the tensors from those of both results."""
        assert LIBRARY is not None
        read, auxiliary = by_rows(read), auxiliary.contiguous()
        found = zeros_like(self.held[1])
        out = HistoryGradients(read.stride(0), *[each.data_ptr() for each in (read, auxiliary, *found)])
        checked(LIBRARY.histories_back(ctypes.byref(self.at), ctypes.byref(out), self.is_double, INSTRUCTIONS))
        return found


def by_rows(x: Tensor) -> Tensor:
    """(n, m) whose rows are contiguous, however far apart: columns of a wider tensor as they are."""
    return x if x.stride(1) == 1 else x.contiguous()
