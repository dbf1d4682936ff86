"""What a step of DMBGN reads: the sessions in the past of its rows, each once, and the graphs of those and of the rows.

For where :mod:`shadowprice.encoders.kernel` was not built; lists.c lists the same there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from shadowprice.graphs.voucher_graphs import GraphBatch, VoucherGraphs
from shadowprice.responses.vouchers.sessions import Index, Past


class Listed(NamedTuple):
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


def list_plain(graphs: VoucherGraphs, past: Tensor, target: Tensor, *, before_only: bool) -> Listed:
    """Of past sessions (n, R) and the rows' own (n,), positions in the log and −1 for none; the sessions ascend.

    Of its own session a row sees what came before the collection; of past ones all, unless ``before_only``.
    """
    history = Past.of(past)
    session, of = distinct(history.session)
    known = graphs.targets(session) if before_only else graphs.past(session)
    return Listed(history, of, session, known.beside(graphs.targets(target.numpy())))


def distinct(session: Index) -> tuple[Index, Index]:
    """The sessions there are, ascending, and which of them each is."""
    found, of = np.unique(session, return_inverse=True)
    return found, of.ravel().astype(np.int64, copy=False)
