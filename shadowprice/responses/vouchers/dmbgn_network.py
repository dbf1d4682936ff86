"""The network of DMBGN (S3): graphs of sessions → embeddings and scores → a logit for a voucher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.encoders.item_embedding import SIDE, ItemEmbedding
from shadowprice.encoders.item_embedding import WIDTH as ITEM_WIDTH
from shadowprice.encoders.kernel.compiled import IS_COMPILED
from shadowprice.encoders.kernel.lists import Logged
from shadowprice.encoders.kernel.steps import StepPass, Steps
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.encoders.voucher_nodes import Learned, Nodes
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, GraphBatch, VoucherGraphs
from shadowprice.responses.tabular.network import FeatureEmbedding
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.tabular.wdl import mlp
from shadowprice.responses.vouchers.dmbgn_history import Encoded, Histories, read_histories
from shadowprice.responses.vouchers.dmbgn_lists import distinct, list_plain
from shadowprice.responses.vouchers.sessions import (
    Index,
    Past,
    SessionNetwork,
    SessionRows,
    TargetAttention,
    Vouchers,
    start_intercept,
)

NODE = ITEM_WIDTH + 2
"""A node's numbers: an item's vector, category and price level; a voucher's vector, minimum spend and discount."""


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What the graphs of a log are made of.

    graphs    of the sessions
    items     float32 (kinds, ITEM_WIDTH): vectors of all that stands at a node of the log's graphs, once
    prices    float32 (P,): the price levels that there are, as numbers
    kind      int32 (nodes,): which of the items each node is, in the order of the graphs; a voucher is none of them
    side      int32 (nodes,): P · code of its category, 0 where training did not know it, and which of the prices it has
    vouchers  of the sessions and levels
    """

    graphs: VoucherGraphs
    items: NDArray[np.float32]
    prices: Tensor
    kind: NDArray[np.int32]
    side: NDArray[np.int32]
    vouchers: Vouchers

    @classmethod
    def of(cls, log: SessionLog, items: ItemEmbedding, vouchers: Vouchers) -> NodeInputs:
        """Of a log, as training knew its items and vouchers."""
        behaviour = log.tables.behaviour
        alike = [column for column in ("action", *SIDE) if column in behaviour]
        of_row = behaviour.groupby(alike, sort=False, dropna=False, observed=True).ngroup().to_numpy(dtype=np.int32)
        kinds = behaviour[~behaviour.duplicated(alike)]
        # torch's memory starts at a line of the cache, numpy's need not, and a vector is one line.
        table = torch.empty(len(kinds), ITEM_WIDTH).numpy()
        table[:] = items.rows(kinds)
        prices, price = np.unique(kinds["price_level"].to_numpy(dtype=np.float32, na_value=4.0), return_inverse=True)
        known = pd.Index(items.tokens["category"])
        category = known.get_indexer(pd.Index(kinds["category"])).astype(np.int32) + 1
        # A voucher stands for behaviour −1, the last one; what that gives it is not read.
        kind = np.asarray(of_row[log.graphs.row] if of_row.size else log.graphs.row, dtype=np.int32)
        side = np.asarray((category * prices.size + price)[kind], dtype=np.int32)
        return cls(log.graphs, table, torch.from_numpy((prices - 4.0) / 2.0), kind, side, vouchers)  # levels are 1 to 7

    def logged(self, above: int) -> Logged:
        """The same as compiled steps read it, with so many rows above the vouchers in the table of what is learned."""
        own = self.vouchers
        return Logged(
            start=self.graphs.start,
            of_session=own.of_session,
            of_level=own.of_level,
            session_terms=own.session_terms,
            level_terms=own.level_terms,
            items=self.items,
            kind=self.kind,
            side=self.side,
            above=above,
            prices=self.prices.shape[0],
            nearest=self.graphs.nearest,
        )


class Memory(NamedTuple):
    """The past of some rows, which of its sessions each is (P,), and what their graphs gave."""

    past: Past
    session: Index
    encoded: Encoded


class Recalled(NamedTuple):
    """What n rows read (n, width), and mean_r −log s_r of each; to be asked for, the positions (S,) in the log of the
    sessions in their past, and what the graphs of those and then of the rows gave."""

    read: Tensor
    auxiliary: Tensor
    graphs: Callable[[], tuple[Index, Encoded]]


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: StepPass, *learned: Tensor) -> tuple[Tensor, Tensor]:
        del learned
        ctx.step = step
        return step.forth()

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.step.back(*gradient)


class DmbgnNetwork(SessionNetwork):
    """The network of :mod:`shadowprice.responses.vouchers.dmbgn`, whose docstring has its equations.

    ``encoder`` reads :data:`NODE` numbers a node and gives e_b of :data:`WIDTH` numbers; ``average`` takes the mean
    of the past in place of attention; ``before_only`` hides what followed the collection of past sessions too.
    """

    def __init__(
        self,
        inputs: TabularInputs,
        nodes: NodeInputs,
        vouchers: int,
        categories: int,
        *,
        embedding: int,
        hidden: Sequence[int],
        history: int,
        encoder: GroupEncoder,
        dropout: float = 0.0,
        average: bool = False,
        before_only: bool = False,
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.before_only = before_only
        self.features = FeatureEmbedding(inputs, embedding)
        self.voucher = nn.Embedding(vouchers + 1, WIDTH)
        self.category = nn.Embedding(categories + 1, 1)
        self.graph = encoder
        self.attention = TargetAttention(2 * WIDTH, average=average)
        self.head = mlp(self.features.width + 4 * WIDTH + history + 3 + 2, hidden, dropout)
        # Above, every category at every price; below, vouchers.
        above = (categories + 1) * nodes.prices.shape[0]
        self.base: Tensor
        self.register_buffer("base", torch.zeros(above + vouchers + 1, NODE), persistent=False)
        self.base[:above, -1] = nodes.prices.repeat(categories + 1)
        self.terms: Tensor
        self.register_buffer("terms", torch.from_numpy(nodes.vouchers.level_terms.copy()), persistent=False)
        self._steps: Steps | None = None
        if isinstance(encoder, VoucherGraphEncoder):
            groups = BEFORE_GROUPS if before_only else len(GROUPS)
            self._steps = Steps(nodes.logged(above), groups=groups, ratio=encoder.ratio, average=average)
            unit = self.attention.unit.parameters()
            self._learned = (self.category.weight, self.voucher.weight, *encoder.weights, *unit)
        nn.init.normal_(self.voucher.weight, std=1.0)
        nn.init.normal_(self.category.weight, std=0.3)
        with torch.no_grad():
            self.voucher.weight[0], self.category.weight[0] = 0.0, 0.0

    def graph_parameters(self) -> list[nn.Parameter]:
        """What pre-training learns: vouchers, categories and the graph network."""
        return [*self.voucher.parameters(), *self.category.parameters(), *self.graph.parameters()]

    def recall(self, rows: SessionRows) -> Recalled:
        """What rows read of their histories; embeddings of what several rows have in their past are computed once."""
        if IS_COMPILED and self._steps is not None:
            return self._recall_compiled(rows, self._steps)
        graphs, own, level = self.nodes.graphs, self.nodes.vouchers, rows.level.numpy()
        past, place, session, batch = list_plain(graphs, rows.past, rows.session, before_only=self.before_only)
        code = np.concatenate([own.of_session[session], own.of_level[level]])
        terms = np.concatenate([own.session_terms[session], own.level_terms[level]])
        encoded = self._encode(batch, code, terms)
        return Recalled(*self.read(Histories(past, place, encoded)), lambda: (session, encoded))

    def remember(self, rows: SessionRows) -> Memory:
        """Embeddings of the past sessions; those of several rows are computed once."""
        past = Past.of(rows.past)
        session, place = distinct(past.session)
        return Memory(past, place, self.past(session))

    def past(self, session: Index) -> Encoded:
        """Sessions that are over, at positions (n,)."""
        own = self.nodes.vouchers
        return self._encode(self._past(session), own.of_session[session], own.session_terms[session])

    def target(self, session: Index, level: Index) -> Encoded:
        """Sessions to be predicted with the vouchers at ``level``: what came before the collection and nothing else."""
        own = self.nodes.vouchers
        return self._encode(self.nodes.graphs.targets(session), own.of_level[level], own.level_terms[level])

    def scored(self, session: Index, level: Index) -> tuple[Encoded, Encoded]:
        """Sessions that are over with the vouchers at ``level``, as targets are seen and whole: what pre-training
        learns from, by one pass over the graphs."""
        own = self.nodes.vouchers
        code, terms = own.of_level[level], own.level_terms[level]
        batch = self.nodes.graphs.past(session)
        before, behaviour = self.graph.both(self._nodes(batch, code, terms), batch)
        target, whole = (Encoded(each, self.voucher.weight, code) for each in (before, behaviour))
        return target, whole

    def logits(self, rows: SessionRows, level: Tensor, memory: Memory) -> Tensor:
        """(n,)."""
        past, session, encoded = memory
        both = encoded.beside(self.target(rows.session.numpy(), level.numpy()))
        return self.decide(rows, level, self.read(Histories(past, session, both))[0])

    def read(self, histories: Histories) -> tuple[Tensor, Tensor]:
        """What rows read of their histories (n, width), and mean_r −log s_r of each: every session in a history was
        redeemed, and should score so."""
        return read_histories(histories, self.attention)

    def decide(self, rows: SessionRows, level: Tensor, read: Tensor) -> Tensor:
        """(n,) logits from what the graphs gave."""
        columns = [self.features(rows.numeric, rows.category), read, self.terms.index_select(0, level)]
        found: Tensor = self.head(torch.cat(columns, dim=1)).squeeze(1)
        return found

    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        start_intercept(self.head[-1], share)

    def _recall_compiled(self, rows: SessionRows, steps: Steps) -> Recalled:
        """:meth:`recall` in one pass there and one back."""
        step = StepPass(steps, rows.past, rows.session, rows.level, self.base, self._learned)
        read, auxiliary = _Step.apply(step, *self._learned)  # type: ignore[no-untyped-call]

        def graphs() -> tuple[Index, Encoded]:
            listed = step.listed()
            return listed["session"], Encoded(step.behaviour, self.voucher.weight, listed["code"])

        return Recalled(read, auxiliary, graphs)

    def _past(self, session: Index) -> GraphBatch:
        graphs = self.nodes.graphs
        return graphs.targets(session) if self.before_only else graphs.past(session)

    def _encode(self, batch: GraphBatch, code: Index, terms: NDArray[np.float32]) -> Encoded:
        return Encoded(self.graph(self._nodes(batch, code, terms), batch), self.voucher.weight, code)

    def _nodes(self, batch: GraphBatch, code: Index, terms: NDArray[np.float32]) -> Nodes:
        """What is fixed, and what is learned of categories and vouchers."""
        given = self.nodes
        learned = [Learned(self.category.weight, ITEM_WIDTH, given.prices.shape[0]), Learned(self.voucher.weight)]
        own_code = self.base.shape[0] - self.voucher.num_embeddings + code
        return Nodes(self.base, learned, batch.first, given.items, given.kind, given.side, terms, own_code)
