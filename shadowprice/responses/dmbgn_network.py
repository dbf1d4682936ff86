"""The network of DMBGN (S3): graphs of sessions → embeddings and scores → a logit for a voucher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad, softplus

from shadowprice.encoders.item_embedding import WIDTH as ITEM_WIDTH
from shadowprice.encoders.item_embedding import ItemEmbedding
from shadowprice.encoders.voucher_graph import WIDTH, VoucherGraphEncoder, gather
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, VOUCHER, GraphBatch, VoucherGraphs
from shadowprice.responses.minibatch import weighted_mean
from shadowprice.responses.sessions import (
    Index,
    Past,
    SessionNetwork,
    SessionRows,
    TargetAttention,
    Vouchers,
    start_intercept,
)
from shadowprice.responses.tabular import TabularInputs
from shadowprice.responses.tabular_network import FeatureEmbedding
from shadowprice.responses.wdl import mlp

NODE = ITEM_WIDTH + 2
"""A node's numbers: an item's vector, category and price level; a voucher's vector, minimum spend and discount."""


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What the graphs of a log are made of.

    graphs    of the sessions
    items     float32 (rows, NODE): of every behaviour, the place of its category at zero
    category  (rows,): code of its category, 0 where training did not know it
    vouchers  of the sessions and levels
    """

    graphs: VoucherGraphs
    items: NDArray[np.float32]
    category: Index
    vouchers: Vouchers

    @classmethod
    def of(cls, log: SessionLog, items: ItemEmbedding, vouchers: Vouchers) -> NodeInputs:
        """Of a log, as training knew its items and vouchers."""
        behaviour = log.tables.behaviour
        table = np.zeros((len(behaviour), NODE), dtype=np.float32)
        table[:, :ITEM_WIDTH] = items.rows(behaviour)
        price = behaviour["price_level"].to_numpy(dtype=np.float32, na_value=4.0)
        table[:, -1] = (price - 4.0) / 2.0  # price levels are 1 to 7
        known = pd.Index(items.tokens["category"])
        category = known.get_indexer(pd.Index(behaviour["category"])).astype(np.int64) + 1
        return cls(log.graphs, table, category, vouchers)


class Encoded(NamedTuple):
    """Embeddings of n sessions: e_b, e_o (n, WIDTH) and the logits of their scores (n,)."""

    behaviour: Tensor
    voucher: Tensor
    score: Tensor

    @property
    def both(self) -> Tensor:
        """(n, 2 · WIDTH)."""
        return torch.cat([self.behaviour, self.voucher], dim=1)


class Memory(NamedTuple):
    """The past sessions of some rows, and what their graphs gave."""

    past: Past
    encoded: Encoded


class DmbgnNetwork(SessionNetwork):
    """The network of :mod:`shadowprice.responses.dmbgn`, whose docstring has its equations."""

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
        average: bool,
        before_only: bool,
        ratio: float,
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.before_only = before_only
        self.features = FeatureEmbedding(inputs, embedding)
        self.voucher = nn.Embedding(vouchers + 1, WIDTH)
        self.category = nn.Embedding(categories + 1, 1)
        self.graph = VoucherGraphEncoder(NODE, ratio=ratio)
        self.attention = TargetAttention(2 * WIDTH, average=average)
        self.head = mlp(self.features.width + 4 * WIDTH + history + 3 + 2, hidden)
        nn.init.normal_(self.voucher.weight, std=1.0)
        nn.init.normal_(self.category.weight, std=0.3)
        with torch.no_grad():
            self.voucher.weight[0], self.category.weight[0] = 0.0, 0.0

    def graph_parameters(self) -> list[nn.Parameter]:
        """What pre-training learns: vouchers, categories and the graph network."""
        return [*self.voucher.parameters(), *self.category.parameters(), *self.graph.parameters()]

    def remember(self, rows: SessionRows) -> Memory:
        """Embeddings of the past sessions; those of several rows are computed once."""
        past = Past.of(rows.past)
        session, place = np.unique(past.session, return_inverse=True)
        return Memory(past, self.repeat(self.past(session), place))

    def past(self, session: Index) -> Encoded:
        """Sessions that are over, at positions (n,)."""
        graphs, own = self.nodes.graphs, self.nodes.vouchers
        batch = graphs.targets(session) if self.before_only else graphs.past(session)
        return self._encode(batch, own.of_session[session], own.session_terms[session])

    def target(self, session: Index, level: Index) -> Encoded:
        """Sessions to be predicted with the vouchers at ``level``: what came before the collection and nothing else."""
        own = self.nodes.vouchers
        return self._encode(self.nodes.graphs.targets(session), own.of_level[level], own.level_terms[level])

    def scored(self, session: Index, level: Index) -> tuple[Encoded, Encoded]:
        """Sessions that are over with the vouchers at ``level``, as targets are seen and whole: what pre-training
        learns from. Groups are graphs of their own, so that what came before the collection is computed once."""
        own = self.nodes.vouchers
        code, terms = own.of_level[level], own.level_terms[level]
        batch = self.nodes.graphs.past(session)
        read = self.graph.readout(self._inputs(batch, code, terms), batch)
        known = read.shape[1] * BEFORE_GROUPS // len(GROUPS)
        before = torch.cat([read[:, :known], torch.zeros_like(read[:, known:])], dim=1)
        voucher = gather(self.voucher.weight, code)
        target, whole = (self._score(self.graph.out(each), voucher) for each in (before, read))
        return target, whole

    def logits(self, rows: SessionRows, level: Tensor, memory: Memory) -> Tensor:
        """(n,)."""
        return self.decide(rows, level, memory, self.target(rows.session.numpy(), level.numpy()))

    def decide(self, rows: SessionRows, level: Tensor, memory: Memory, target: Encoded) -> Tensor:
        """(n,) logits from what the graphs gave."""
        past, encoded = memory
        concerned = self.attention(encoded.both, target.both, past)
        terms = torch.from_numpy(self.nodes.vouchers.level_terms[level.numpy()]).to(concerned.dtype)
        read = [
            self.features(rows.numeric, rows.category),
            concerned,
            target.both,
            score_features(torch.sigmoid(encoded.score), past),
            terms,
        ]
        found: Tensor = self.head(torch.cat(read, dim=1)).squeeze(1)
        return found

    def auxiliary(self, memory: Memory, weight: Tensor) -> Tensor:
        """mean_n mean_r −log s_r: every session in a history was redeemed, and should score so."""
        if not memory.past.row.size:
            return weight.new_zeros(())
        by_row = memory.past.sum(softplus(-memory.encoded.score)[:, None]).squeeze(1)
        count = torch.from_numpy(np.maximum(memory.past.count, 1)).to(by_row.dtype)
        return weighted_mean(by_row / count, weight)

    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        start_intercept(self.head[-1], share)

    @staticmethod
    def repeat(encoded: Encoded, place: Index) -> Encoded:
        """Of distinct sessions, those at ``place`` (P,)."""
        table = torch.cat([encoded.behaviour, encoded.voucher, encoded.score[:, None]], dim=1)
        found = gather(table, place.ravel().astype(np.int64))
        return Encoded(found[:, :WIDTH], found[:, WIDTH:-1], found[:, -1])

    def _encode(self, batch: GraphBatch, code: Index, terms: NDArray[np.float32]) -> Encoded:
        return self._score(self.graph(self._inputs(batch, code, terms), batch), gather(self.voucher.weight, code))

    @staticmethod
    def _score(behaviour: Tensor, voucher: Tensor) -> Encoded:
        return Encoded(behaviour, voucher, (behaviour * voucher).sum(dim=1))

    def _inputs(self, batch: GraphBatch, code: Index, terms: NDArray[np.float32]) -> Tensor:
        """(N, NODE): what is fixed, and what is learned of categories and vouchers."""
        is_voucher = batch.row == VOUCHER
        row, member = np.maximum(batch.row, 0), batch.member
        if self.nodes.items.size:
            fixed, learned = self.nodes.items[row], self.nodes.category[row]
        else:
            fixed, learned = np.zeros((batch.nodes, NODE), dtype=np.float32), np.zeros(batch.nodes, dtype=np.int64)
        fixed[is_voucher, :ITEM_WIDTH] = 0.0
        fixed[is_voucher, ITEM_WIDTH:] = terms[member[is_voucher]]
        categories = self.category.weight.shape[0]
        learned = np.where(is_voucher, categories + code[member], learned)
        table = torch.cat([pad(self.category.weight, (ITEM_WIDTH, 1)), pad(self.voucher.weight, (0, 2))])
        return gather(table, learned) + torch.from_numpy(fixed).to(table.dtype)


def score_features(score: Tensor, past: Past) -> Tensor:
    """(n, R + 3): scores (P,) of each history, latest first, zeros where it is shorter; then their max, mean, min."""
    raw = past.spread(score)
    there = past.spread(torch.ones_like(score))
    count = there.sum(dim=1)
    most = raw.max(dim=1).values
    mean = raw.sum(dim=1) / count.clamp(min=1)
    least = torch.where(count > 0, (raw + (1 - there)).min(dim=1).values, torch.zeros_like(most))
    return torch.cat([raw, torch.stack([most, mean, least], dim=1)], dim=1)
