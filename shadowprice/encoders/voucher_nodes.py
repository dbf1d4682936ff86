"""What the nodes of voucher graphs start from: numbers that are fixed, and tables that are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from shadowprice.graphs.voucher_graphs import GROUPS, GraphBatch, spans


@dataclass(frozen=True, eq=False)
class Learned:
    """Part of a table: each row of ``values`` (r, w) ``times`` times, one below the other, from column ``first`` on."""

    values: Tensor
    first: int = 0
    times: int = 1


@dataclass(frozen=True, eq=False)
class Nodes:
    """What the nodes of a batch of B sessions and G graphs start from: x = table[code], F numbers each.

    To which an item adds its fixed numbers in the first columns, and a voucher its own in the last.

    base       (T, F): the table where nothing is learned; zeros where it is
    learned    the parts of the table, one below the other
    first      (G,): where each graph's nodes begin in ``kind`` and ``code``, with its voucher
    fixed      float32 (K, W) of items, or None
    kind       int32 (M,) of M nodes: row of ``fixed``, None with it; not read at vouchers
    code       int32 (M,): row of the table, or None where it is the node's own place; not read at vouchers
    own        float32 (B, F − W) of each session's voucher, None with ``fixed``
    own_code   (B,) of each session's voucher, None with ``code``
    """

    base: Tensor
    learned: Sequence[Learned]
    first: NDArray[np.int64]
    fixed: NDArray[np.float32] | None = None
    kind: NDArray[np.int32] | None = None
    code: NDArray[np.int32] | None = None
    own: NDArray[np.float32] | None = None
    own_code: NDArray[np.int64] | None = None

    @classmethod
    def dense(cls, x: Tensor, batch: GraphBatch) -> Nodes:
        """Of features (N, F) of every node."""
        return cls(torch.zeros_like(x, requires_grad=False), [Learned(x)], batch.start)

    @property
    def width(self) -> int:
        """F."""
        return int(self.base.shape[1])

    def features(self, batch: GraphBatch) -> Tensor:
        """x (N, F), with gradient."""
        width = self.width
        columns = [
            pad(each.values.repeat_interleave(each.times, 0), (each.first, width - each.first - each.values.shape[1]))
            for each in self.learned
        ]
        place = spans(self.first, batch.length)
        code = place if self.code is None else self.code[place].astype(np.int64)
        member = batch.slot // len(GROUPS)
        if self.own_code is not None:
            code[batch.start] = self.own_code[member]
        found = gather(torch.cat(columns) + self.base, code)
        if self.fixed is None or self.kind is None or self.own is None:
            return found
        fixed = np.zeros((place.size, width), dtype=np.float32)
        fixed[:, : self.fixed.shape[1]] = self.fixed[self.kind[place]]
        fixed[batch.start] = 0.0
        fixed[batch.start, self.fixed.shape[1] :] = self.own[member]
        return found + torch.from_numpy(fixed).to(found.dtype)


def gather(x: Tensor, index: NDArray[np.int64]) -> Tensor:
    """(n, D): the rows ``index`` of x, zeros where it is negative."""
    known = index >= 0
    if known.all():
        return x.index_select(0, torch.from_numpy(index))
    place = torch.from_numpy(np.flatnonzero(known))
    return x.new_zeros(index.size, x.shape[1]).index_copy(0, place, x.index_select(0, torch.from_numpy(index[known])))
