"""What a step of DMBGN reads: the sessions in the past of its rows, each once, and the graphs of those and of the rows.

In C where :mod:`shadowprice.encoders.kernel` was built, :func:`list_plain` otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from shadowprice.encoders.kernel.compiled import IS_COMPILED
from shadowprice.encoders.kernel.lists import list_sessions
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, GraphBatch, TargetBatch, VoucherGraphs
from shadowprice.responses.sessions import Index, Past


class StepLists(NamedTuple):
    """P past sessions of n rows, S of them distinct.

    past     which session stands where in which row's history
    of       (P,): which of the S each of them is
    session  (S,): their positions in the log
    batch    the graphs of the S sessions, then of the n rows
    """

    past: Past
    of: Index
    session: Index
    batch: GraphBatch


def list_step(graphs: VoucherGraphs, past: Tensor, target: Tensor, *, before_only: bool) -> StepLists:
    """Of past sessions (n, R) and the rows' own (n,), positions in the log and −1 for none.

    Of its own session a row sees what came before the collection; of past ones all, unless ``before_only``.

    Raises:
        InvalidInput: a row's own graphs hold what came after its collection.
    """
    if not IS_COMPILED:
        return list_plain(graphs, past, target, before_only=before_only)
    groups = BEFORE_GROUPS if before_only else len(GROUPS)
    rows, most = past.shape
    found = list_sessions(past.numpy(), target.numpy(), graphs.start, groups)
    sessions, own = found.session.size, slice(found.past_graphs, None)
    slot, length, first = found.graph_slot, found.length, found.first
    # Made for what it refuses: no mistake in C may let a row see what came after.
    TargetBatch(rows, slot[own] - sessions * len(GROUPS), length[own], first[own], graphs.row, graphs.nearest)
    batch = GraphBatch(sessions + rows, slot, length, first, graphs.row, graphs.nearest)
    return StepLists(Past(found.row, found.slot, found.session[found.of], rows, most), found.of, found.session, batch)


def list_plain(graphs: VoucherGraphs, past: Tensor, target: Tensor, *, before_only: bool) -> StepLists:
    """The same in numpy; the sessions ascend."""
    history = Past.of(past)
    session, of = distinct(history.session)
    known = graphs.targets(session) if before_only else graphs.past(session)
    return StepLists(history, of, session, known.beside(graphs.targets(target.numpy())))


def distinct(session: Index) -> tuple[Index, Index]:
    """The sessions there are, ascending, and which of them each is."""
    found, of = np.unique(session, return_inverse=True)
    return found, of.ravel().astype(np.int64, copy=False)
