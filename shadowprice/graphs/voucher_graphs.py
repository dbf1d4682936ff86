"""User-behaviour voucher graphs (S3, section 3.2): a person's actions around a voucher, one small graph a session.

    behaviours before the collection    … → item → item → voucher      the Z nearest point at the voucher
    behaviours after it                 voucher → item → item → …      the voucher points at the Z nearest

The latter end with the session: :func:`shadowprice.graphs.sessions.session_ends`.

Cart and order are chains of their own, each with its own copy of the voucher, so a session has up to four graphs (a
*group* each: before-cart, before-order, after-cart, after-order) and an empty group has none. A node stands for one row
of the behaviour table. Within equal times rows are in order of item, price and brand. A batch is one block-diagonal
graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign.session import SESSION_ACTIONS
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.tables.schema import PHASES

GROUPS = tuple(f"{phase}-{action}" for phase in PHASES for action in SESSION_ACTIONS)
BEFORE_GROUPS = len(SESSION_ACTIONS)
"""The first so many groups are those before the collection."""
NEAREST = 6
KEPT = (45, 20)
VOUCHER = -1
"""In place of a behaviour row: the node of the voucher."""

UNKNOWN_YET = "holds behaviour after the collection, which is not known when a voucher is to be chosen"

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VoucherGraphs:
    """The graphs of S sessions.

    start    (4S + 1,): the nodes of group g of session s are ``start[4s + g]`` up to ``start[4s + g + 1]``: none, or
             the voucher and then the items in order of time
    row      (N,): row of the behaviour table of each node, :data:`VOUCHER` for a voucher
    nearest  Z
    """

    start: Index
    row: Index
    nearest: int = NEAREST

    @property
    def sessions(self) -> int:
        """S."""
        return (self.start.size - 1) // len(GROUPS)

    def save(self, path: Path) -> None:
        """Write to one ``.npz`` file without pickled objects."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez(file, start=self.start, row=self.row, nearest=np.array(self.nearest))

    @classmethod
    def load(cls, path: Path) -> VoucherGraphs:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            return cls(data["start"], data["row"], int(data["nearest"]))

    def past(self, session: Index) -> GraphBatch:
        """Whole graphs of ``session`` (B,), positions that may repeat and −1 for none, as one block-diagonal graph.

        For sessions that are over. O(nodes of the batch).
        """
        return GraphBatch(*self._take(session, len(GROUPS)))

    def targets(self, session: Index) -> TargetBatch:
        """Graphs of ``session`` (B,) without the behaviour after the collection, as :meth:`past` has them."""
        return TargetBatch(*self._take(session, BEFORE_GROUPS))

    def _take(self, session: Index, groups: int) -> tuple[int, Index, Index, Index, Index, int]:
        known = np.flatnonzero(session >= 0)
        graph = (session[known, None] * len(GROUPS) + np.arange(groups)).ravel()
        slot = (known[:, None] * len(GROUPS) + np.arange(groups)).ravel()
        first = self.start[graph]
        length = self.start[graph + 1] - first
        full = length > 0
        return session.size, slot[full], length[full], first[full], self.row, self.nearest


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """The block-diagonal graph of B sessions.

    size     B
    slot     (G,): 4 · position in the batch + group of each graph that is not empty, ascending
    length   (G,): its nodes
    first    (G,): where they stand in ``source``
    source   rows of the behaviour table of all nodes of the log, as in :class:`VoucherGraphs`
    nearest  Z
    """

    size: int
    slot: Index
    length: Index
    first: Index
    source: Index
    nearest: int

    @cached_property
    def nodes(self) -> int:
        """N."""
        return int(self.length.sum())

    @cached_property
    def row(self) -> Index:
        """(N,): row of the behaviour table of each node, :data:`VOUCHER` for a voucher."""
        return self.source[spans(self.first, self.length)]

    @cached_property
    def start(self) -> Index:
        """(G,): first node of each graph, which is its voucher."""
        return np.asarray(np.cumsum(self.length) - self.length)

    @cached_property
    def graph(self) -> Index:
        """(N,): graph of each node."""
        return np.repeat(np.arange(self.length.size), self.length)

    @property
    def member(self) -> Index:
        """(N,): position in the batch of each node."""
        return self.slot[self.graph] // len(GROUPS)

    @property
    def group(self) -> Index:
        """(N,): group of each node."""
        return self.slot[self.graph] % len(GROUPS)

    @cached_property
    def edge_index(self) -> Index:
        """(2, E): source, target, loops included. O(N + edges)."""
        node = np.arange(self.nodes)
        voucher = np.repeat(self.start, self.length)
        place, left = node - voucher, np.repeat(self.length, self.length) - (node - voucher)
        before = self.group < BEFORE_GROUPS
        item, near = place > 0, np.where(before, left, place) <= self.nearest
        source = np.concatenate([node, node[place > 1] - 1, voucher[item & ~before & near], node[item & before & near]])
        target = np.concatenate([node, node[place > 1], node[item & ~before & near], voucher[item & before & near]])
        return np.stack([source, target])


@dataclass(frozen=True, eq=False)
class TargetBatch(GraphBatch):
    """A batch without behaviour after the collection: all that a prediction may read of its own session.

    Raises:
        InvalidInput: a graph of a group after the collection is in it.
    """

    def __post_init__(self) -> None:
        later = self.slot[self.slot % len(GROUPS) >= BEFORE_GROUPS]
        if later.size:
            raise InvalidInput(UNKNOWN_YET, field="target", rows=(later[:5] // len(GROUPS)).tolist())


def build_graphs(
    behaviour: pd.DataFrame,
    session: Index,
    sessions: int,
    *,
    ends: Index | None = None,
    nearest: int = NEAREST,
    kept: tuple[int, int] = KEPT,
) -> VoucherGraphs:
    """The graphs of all sessions.

    Args:
        behaviour: the behaviour table: item_id, action, phase, ts and, as they are there, price_level and brand.
        session: (rows,): session of each row, a position from 0, −1 where it has none.
        sessions: S.
        ends: (S,): nanoseconds since 1970 after which nothing of a session is read; without it, everything is.
        nearest: Z, how many items are tied to the voucher.
        kept: most cart and order items of a phase, those nearest to the collection.

    O(rows log rows).
    """
    require(nearest > 0, "nearest", "must be at least 1")
    require(min(kept) > 0, "kept", "must be at least 1")
    ts = behaviour["ts"].to_numpy(dtype="datetime64[ns]").astype(np.int64)
    after = (behaviour["phase"] == PHASES[1]).to_numpy()
    order = (behaviour["action"] == SESSION_ACTIONS[1]).to_numpy()
    graph = session * len(GROUPS) + 2 * after + order
    tie = behaviour["item_id"].factorize(sort=True)[0]
    keys: list[NDArray[np.int64]] = [tie, ts, graph]
    for column in ("price_level", "brand"):
        if column in behaviour:
            keys.insert(0, behaviour[column].factorize(sort=True)[0])
    row = np.lexsort(keys)
    row = row[np.searchsorted(session[row], 0) :]  # sessions ascend, so that those without one come first
    if ends is not None:
        row = row[ts[row] <= ends[session[row]]]
    graph = graph[row]
    count = np.bincount(graph, minlength=len(GROUPS) * sessions)
    first = np.cumsum(count) - count
    place = np.arange(row.size) - first[graph]
    most = np.asarray(kept)[graph % 2]
    is_after = graph % len(GROUPS) >= BEFORE_GROUPS
    stays = np.where(is_after, place < most, place >= count[graph] - most)
    row, graph = row[stays], graph[stays]
    count = np.bincount(graph, minlength=len(GROUPS) * sessions)
    length = count + (count > 0)
    start = np.concatenate([[0], np.cumsum(length)])
    nodes = np.full(start[-1], VOUCHER, dtype=np.int64)
    shift = np.cumsum(count > 0)
    nodes[np.arange(row.size) + shift[graph]] = row
    return VoucherGraphs(start, nodes, nearest)


def spans(first: Index, length: Index) -> Index:
    """first[0], first[0] + 1, … (length[0] of them), first[1], …"""
    ends = np.cumsum(length)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(first - ends + length, length)
