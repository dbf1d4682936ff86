"""Steps of DMBGN from the rows to what they read of their histories, and back: lists.c, graphs.c and histories.c.

The same as those one after the other, whose tensors, structures and nodes in autograd's graph take a third as long as
what they are for. Between two calls the caches hold other things, and a function of numpy's that takes a microsecond
when called over and over takes ten: what does not change stands in structures that are copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from shadowprice.encoders.kernel.compiled import INSTRUCTIONS, LIBRARY, TEAM, checked, zeros_like
from shadowprice.encoders.kernel.graphs import WIDTH, GraphGradients, Graphs, layers
from shadowprice.encoders.kernel.histories import HALF, UNITS, Histories, HistoryGradients, by_rows
from shadowprice.encoders.kernel.lists import LISTED, OF_LOG, OF_NODES, Lists, Logged
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, Index

CATEGORY, VOUCHER = 0, 1
GRAPHS = slice(2, 12)
ATTENTION = slice(12, None)
"""Which of the tensors that are learned."""


class Steps:
    """The steps of one network over one log.

    Args:
        log: what is read.
        groups: how many of the four groups of a past session are seen; those before the collection come first.
        ratio: how many of a graph's nodes pooling keeps.
        average: whether past sessions are averaged; else they are attended to.
    """

    def __init__(self, log: Logged, *, groups: int, ratio: float, average: bool) -> None:
        self.log = log
        self.average = average
        sizes = {"logged": log.of_session.size, "offers": log.of_level.size}
        self._lists = Lists(past_groups=groups, above=log.above, **sizes, **_addresses(log, OF_LOG))
        fixed, kind, code = _addresses(log, OF_NODES).values()
        self._graphs = Graphs(nearest=log.nearest, ratio=ratio, fixed=fixed, kind=kind, code=code, pieces=2, team=TEAM)
        self._histories = Histories(average=average, team=TEAM)
        self._known: list[int] = []

    def structures(self, base: Tensor, learned: Sequence[Tensor]) -> tuple[Lists, Graphs, Histories]:
        """Own ones, with all that does not change: to look up addresses and write them is most of the work."""
        known = [base.data_ptr(), torch.get_num_threads(), *[each.data_ptr() for each in learned]]
        if known != self._known:
            self._write(base, learned, *known)
            self._known = known
        return (
            Lists.from_buffer_copy(self._lists),
            Graphs.from_buffer_copy(self._graphs),
            Histories.from_buffer_copy(self._histories),
        )

    def _write(self, base: Tensor, learned: Sequence[Tensor], table: int, threads: int, *to: int) -> None:
        graphs, histories, weights = self._graphs, self._histories, to[GRAPHS]
        graphs.codes, graphs.inputs = base.shape
        graphs.base, graphs.threads, histories.threads = table, threads, threads
        category, voucher = learned[CATEGORY], learned[VOUCHER]
        graphs.piece[0] = (to[CATEGORY], *category.shape, WIDTH, self.log.prices)
        graphs.piece[1] = (to[VOUCHER], *voucher.shape, 0, 1)
        graphs.rel, graphs.bias, graphs.root, graphs.select = layers(weights)
        graphs.out, graphs.out_bias = weights[8:]
        histories.codes, histories.offer = voucher.shape[0], to[VOUCHER]
        histories.weight, histories.bias, histories.slope, histories.last, histories.shift = to[ATTENTION]


class StepPass:
    """One step of n rows: :meth:`forth` to what they read, then :meth:`back` to the gradients.

    Args:
        steps: see there.
        past, target: positions (n, R) in the log of past sessions and (n,) of the rows' own, −1 for none.
        level: (n,): the rows' offers.
        base: (codes, 18): the table that nodes start from, zeros where it is learned.
        learned: leaves, contiguous and of one type, float32 or float64: categories (C, 1), vouchers (T, 16), the
            weights of :class:`~shadowprice.encoders.kernel.graphs.GraphPass` and of the attention of
            :class:`~shadowprice.encoders.kernel.histories.HistoryPass`.

    Of its own session a row sees what came before its collection.

    Raises:
        InvalidInput: a session or an offer is none of the log's, or a pass would read what came after.

    O(n · R + N · 16 · 34), N nodes.
    """

    def __init__(
        self, steps: Steps, past: Tensor, target: Tensor, level: Tensor, base: Tensor, learned: Sequence[Tensor]
    ) -> None:
        assert LIBRARY is not None
        lists, graphs, histories = steps.structures(base, learned)
        past, target, level = past.contiguous(), target.contiguous(), level.contiguous()
        rows, most = past.shape
        pairs, members = rows * most, rows * most + rows  # at most
        sizes = (*[pairs] * 4, *[len(GROUPS) * pairs + BEFORE_GROUPS * rows] * 3, *[members] * 3)
        # Both numbers of a voucher are as wide as one of these. What is not written costs nothing.
        self._ends = (0, *accumulate(sizes))
        listed = torch.empty(self._ends[-1], dtype=torch.int64)
        at = listed.data_ptr()
        lists.rows, lists.most = rows, most
        lists.past, lists.target, lists.level = past.data_ptr(), target.data_ptr(), level.data_ptr()
        to = [at + 8 * end for end in self._ends]
        lists.row, lists.slot, lists.of, lists.session = to[:4]
        lists.graph_slot, lists.first, lists.length = to[4:7]
        lists.code, lists.own_code, lists.own = to[7:10]
        checked(LIBRARY.sessions_list(ctypes.byref(lists)))
        self.sessions, self.rows = lists.sessions, rows
        self._most, self._listed, self._learned = most, listed, learned
        self._is_double = base.dtype == torch.float64
        self._lists, self._graphs, self._histories = lists, graphs, histories
        self._lay(base, steps.average)
        self._held = (steps, past, target, level, base)  # the structures have only addresses

    def _lay(self, base: Tensor, average: bool) -> None:
        """Room for what the way forth leaves for the way back."""
        lists, graphs, histories = self._lists, self._graphs, self._histories
        nodes, pairs, count, members = lists.nodes, lists.pairs, lists.graphs, lists.sessions + self.rows
        # What has WIDTH numbers comes first: it begins at lines of the cache.
        wide = (members * WIDTH, nodes * WIDTH, nodes * WIDTH, count * 2 * WIDTH, 0 if average else pairs * UNITS)
        *ends, size = accumulate((0, *wide, nodes, nodes, pairs, lists.sessions))
        room = base.new_empty(size)
        flags = torch.empty(8 * count + 2 * nodes, dtype=torch.uint8)
        width, at, left = base.element_size(), room.data_ptr(), flags.data_ptr()
        whole, *h, readout, before, gate, gates, weights, scores = [at + width * end for end in ends]
        stays = left + 8 * count
        graphs.graphs, graphs.members, graphs.targets, graphs.longest = count, members, self.rows, lists.longest
        graphs.first, graphs.length, graphs.slot = lists.first, lists.length, lists.graph_slot
        graphs.own, graphs.own_code = lists.own, lists.own_code
        graphs.h, graphs.gate = (h[0], h[1]), (gate, gates)
        graphs.stays, graphs.left = (stays, stays + nodes), (left, left + 4 * count)
        graphs.readout, graphs.whole = readout, whole
        histories.rows, histories.most = self.rows, self._most
        histories.sessions, histories.pairs = lists.sessions, pairs
        histories.row, histories.slot, histories.session = lists.row, lists.slot, lists.of
        histories.code, histories.own = lists.code, whole
        histories.before, histories.weights, histories.scores = before, weights, scores
        self._room, self._flags = room, flags

    @property
    def behaviour(self) -> Tensor:
        """(S + n, 16): embeddings of the graphs of the S past sessions, then of the rows."""
        members = self.sessions + self.rows
        return self._room[: members * WIDTH].view(members, WIDTH)

    def listed(self) -> dict[str, Index]:
        """What lists.c lists, by name."""
        own = self._listed.numpy()
        size = self._lists
        counts = (*[size.pairs] * 3, size.sessions, *[size.graphs] * 3, *[size.sessions + size.rows] * 3)
        return {
            name: own[first : first + count]
            for name, (first, _), count in zip(LISTED, pairwise(self._ends), counts, strict=True)
        }

    def forth(self) -> tuple[Tensor, Tensor]:
        """See :meth:`~shadowprice.encoders.kernel.histories.HistoryPass.forth`."""
        assert LIBRARY is not None
        checked(LIBRARY.graphs_forth(ctypes.byref(self._graphs), self._is_double, INSTRUCTIONS))
        read = self._room.new_empty(self.rows, 4 * HALF + self._most + 3)
        auxiliary = self._room.new_empty(self.rows)
        self._histories.read, self._histories.auxiliary = read.data_ptr(), auxiliary.data_ptr()
        checked(LIBRARY.histories_forth(ctypes.byref(self._histories), self._is_double, INSTRUCTIONS))
        return read, auxiliary

    def back(self, read: Tensor, auxiliary: Tensor) -> list[Tensor]:
        """Gradients of what is learned from those of both results."""
        assert LIBRARY is not None
        read, auxiliary = by_rows(read), auxiliary.contiguous()
        found, behaviour = zeros_like(self._learned), torch.empty_like(self.behaviour)
        to, asked = [each.data_ptr() for each in found], behaviour.data_ptr()
        told = HistoryGradients(
            read.stride(0), read.data_ptr(), auxiliary.data_ptr(), asked, to[VOUCHER], *to[ATTENTION]
        )
        checked(
            LIBRARY.histories_back(ctypes.byref(self._histories), ctypes.byref(told), self._is_double, INSTRUCTIONS)
        )
        weights = to[GRAPHS]
        out = GraphGradients(asked, None, *weights[8:], (to[CATEGORY], to[VOUCHER]), *layers(weights))
        checked(LIBRARY.graphs_back(ctypes.byref(self._graphs), ctypes.byref(out), self._is_double, INSTRUCTIONS))
        return found


def _addresses(log: Logged, names: Sequence[str]) -> dict[str, int]:
    return {name: np.asarray(getattr(log, name)).ctypes.data for name in names}
