"""The network of DMBGN (S3): graphs of sessions → embeddings and scores → a logit for a voucher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, TopKPooling

from shadowprice.encoders.base import WIDTH as SERVED_WIDTH
from shadowprice.encoders.item_embedding import SIDE, ItemEmbedding
from shadowprice.encoders.item_embedding import WIDTH as ITEM_WIDTH
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, KEPT, VOUCHER, GraphBatch, VoucherGraphs
from shadowprice.responses.layers.session import ServedSession
from shadowprice.responses.tabular.network import FeatureEmbedding, mlp, start_intercept
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.vouchers.dmbgn_history import Encoded, Memory, read_histories
from shadowprice.responses.vouchers.sessions import (
    Index,
    Past,
    SessionNetwork,
    SessionRows,
    TargetAttention,
    Vouchers,
)

NODE = ITEM_WIDTH + 2
"""A node's numbers: an item's vector, category and price level; a voucher's vector, minimum spend and discount."""


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """Graphs of a log and the fixed features of their nodes. Behaviours of the same item share one vector.

    graphs    of the sessions
    items     float32 (kinds, ITEM_WIDTH): vectors of the distinct items
    kind      int64 (rows,): item of each row of the behaviour table
    category  int64 (rows,): code of its category, 0 where training did not know it
    price     float32 (rows,): its price level as a number
    vouchers  of the sessions and levels
    categories  number of those that training knew
    """

    graphs: VoucherGraphs
    items: Tensor
    kind: Tensor
    category: Tensor
    price: Tensor
    vouchers: Vouchers
    categories: int

    @classmethod
    def of(cls, log: SessionLog, items: ItemEmbedding, vouchers: Vouchers) -> NodeInputs:
        """Read the nodes of a log, with the items and vouchers that training knew."""
        behaviour = log.tables.behaviour
        alike = [column for column in ("action", *SIDE) if column in behaviour]
        kind = behaviour.groupby(alike, sort=False, dropna=False, observed=True).ngroup().to_numpy(dtype=np.int64)
        vectors = items.rows(behaviour[~behaviour.duplicated(alike)])
        known = pd.Index(items.tokens["category"])
        category = known.get_indexer(pd.Index(behaviour["category"])).astype(np.int64) + 1
        price = behaviour["price_level"].to_numpy(dtype=np.float32, na_value=4.0)
        return cls(
            log.graphs,
            torch.from_numpy(np.asarray(vectors, dtype=np.float32)),
            torch.from_numpy(kind),
            torch.from_numpy(category),
            torch.from_numpy((price - 4.0) / 2.0),  # levels are 1 to 7
            vouchers,
            known.size,
        )


class DmbgnNetwork(SessionNetwork):
    """Network of :mod:`shadowprice.responses.vouchers.dmbgn`, whose docstring has its equations.

    ``encoder`` reads :data:`NODE` numbers a node and gives e_b of :data:`WIDTH` numbers; ``before_only`` hides what
    followed the collection of past sessions too.
    """

    def __init__(
        self,
        inputs: TabularInputs,
        nodes: NodeInputs,
        *,
        embedding: int,
        hidden: Sequence[int],
        history: int,
        encoder: GroupEncoder,
        dropout: float = 0.0,
        before_only: bool = False,
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.before_only = before_only
        self.history = history
        self.features = FeatureEmbedding(inputs, embedding)
        self.voucher = nn.Embedding(nodes.vouchers.known + 1, WIDTH)
        self.category = nn.Embedding(nodes.categories + 1, 1)
        self.graph = encoder
        self.attention = TargetAttention(2 * WIDTH)
        self.head = mlp(self.features.width + 4 * WIDTH + history + 3 + 2, hidden, dropout)
        self.terms: Tensor
        self.register_buffer("terms", torch.from_numpy(nodes.vouchers.level_terms.copy()), persistent=False)
        nn.init.normal_(self.voucher.weight, std=1.0)
        nn.init.normal_(self.category.weight, std=0.3)
        with torch.no_grad():
            self.voucher.weight[0], self.category.weight[0] = 0.0, 0.0

    def graph_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that pre-training learns: vouchers, categories and the graph network."""
        return [*self.voucher.parameters(), *self.category.parameters(), *self.graph.parameters()]

    def remember(self, rows: SessionRows) -> Memory:
        """Embed the past sessions; those of several rows are embedded once."""
        past = Past.of(rows.past)
        session, of = np.unique(past.session, return_inverse=True)
        return Memory(past, session, of, self.past(session))

    def past(self, session: Index) -> Encoded:
        """Embed sessions that are over, at positions (n,)."""
        graphs, own = self.nodes.graphs, self.nodes.vouchers
        batch = graphs.targets(session) if self.before_only else graphs.past(session)
        code, terms = own.of_session[session], own.session_terms[session]
        return Encoded(self.graph(self.start_of(batch, code, terms), batch), self.offer(code))

    def target(self, session: Index, level: Index) -> Encoded:
        """Embed sessions to be predicted with the vouchers at ``level``, from what came before the collection alone."""
        batch, own = self.nodes.graphs.targets(session), self.nodes.vouchers
        code, terms = own.of_level[level], own.level_terms[level]
        return Encoded(self.graph(self.start_of(batch, code, terms), batch), self.offer(code))

    def scored(self, session: Index, level: Index) -> tuple[Encoded, Encoded]:
        """Embed sessions that are over with the vouchers at ``level``, as targets and whole, for pre-training."""
        batch, own = self.nodes.graphs.past(session), self.nodes.vouchers
        code, terms = own.of_level[level], own.level_terms[level]
        before, behaviour = self.graph.both(self.start_of(batch, code, terms), batch)
        return Encoded(before, self.offer(code)), Encoded(behaviour, self.offer(code))

    def logits(self, rows: SessionRows, level: Tensor, memory: Memory) -> Tensor:
        """(n,)."""
        target = self.target(rows.session.numpy(), level.numpy())
        return self.decide(rows, level, self.read(memory, target)[0])

    def read(self, memory: Memory, target: Encoded) -> tuple[Tensor, Tensor]:
        """Return what rows read of their histories (n, width), and mean_r −log s_r of each.

        Every session in a history was redeemed, and its score should say so.
        """
        return read_histories(memory, target, self.attention)

    def decide(self, rows: SessionRows, level: Tensor, read: Tensor) -> Tensor:
        """Return logits (n,) from what rows read."""
        columns = [self.features(rows.numeric, rows.category), read, self.terms.index_select(0, level)]
        logit: Tensor = self.head(torch.cat(columns, dim=1)).squeeze(1)
        return logit

    def own(self, rows: SessionRows) -> NDArray[np.float32]:
        """Return what stays of each row while its session changes: features, e of the past, their number; (n, P)."""
        memory = self.remember(rows)
        past, of = memory.past, torch.from_numpy(memory.of)
        keys = torch.zeros(len(rows), past.most, 2 * WIDTH, dtype=self.voucher.weight.dtype)
        keys[torch.from_numpy(past.row), torch.from_numpy(past.slot)] = memory.encoded.both[of]
        features = self.features(rows.numeric.to(keys.dtype), rows.category)
        count = torch.from_numpy(past.count)[:, None].to(keys.dtype)
        return np.asarray(torch.cat([features, keys.flatten(1), count], dim=1), dtype=np.float32)

    def served(self, items: ItemEmbedding, own: NDArray[np.float32]) -> ServedSession:
        """Return the network in numpy; ``own`` (n, P) of some accounts give the features of a person never seen."""
        assert isinstance(self.graph, VoucherGraphEncoder)
        nodes, default = self.nodes, np.zeros(own.shape[1], dtype=np.float32)
        default[: self.features.width] = own[:, : self.features.width].mean(axis=0)

        def array(tensor: Tensor) -> NDArray[np.float64]:
            return np.array(tensor.detach().numpy(), dtype=np.float64)

        first, second = (cast(GraphConv, each) for each in self.graph.convolutions)
        pools = [cast(TopKPooling, each) for each in self.graph.pools]
        hidden, slope, weight = (cast(Any, each) for each in self.attention.unit)
        layers = [each for each in self.head if isinstance(each, nn.Linear)]
        return ServedSession(
            tokens=items.tokens,
            kept=KEPT,
            nearest=nodes.graphs.nearest,
            ratio=cast(float, pools[0].ratio),
            history=self.history,
            width=SERVED_WIDTH,
            items=items.vectors,
            category=array(self.category.weight[:, 0]),
            vouchers=array(self.voucher.weight[torch.from_numpy(nodes.vouchers.of_level)]),
            terms=array(self.terms),
            first=array(first.lin_rel.weight),
            first_root=array(first.lin_root.weight),
            relation=array(second.lin_rel.weight),
            root=array(second.lin_root.weight),
            relation_bias=np.stack([array(each.lin_rel.bias) for each in (first, second)]),
            pool=np.stack([array(each.select.weight[0]) for each in pools]),
            # What comes after the collection is not known yet.
            out=array(self.graph.out.weight[:, : BEFORE_GROUPS * self.graph.readout_width]),
            out_bias=array(self.graph.out.bias),
            unit=array(hidden.weight),
            unit_bias=array(hidden.bias),
            slope=array(slope.weight),
            weight=array(weight.weight),
            weight_bias=array(weight.bias),
            head=tuple(array(part) for layer in layers for part in (layer.weight, layer.bias)),
            default_own=default,
        )

    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        start_intercept(self.head[-1], share)

    def offer(self, code: Index) -> Tensor:
        """Return e_o (n, WIDTH) of vouchers by code."""
        encoded: Tensor = self.voucher(torch.from_numpy(code))
        return encoded

    def start_of(self, batch: GraphBatch, code: Index, terms: NDArray[np.float32]) -> Tensor:
        """Return node features (N, NODE) of a batch of B sessions with vouchers ``code`` (B,) and ``terms`` (B, 2)."""
        graph, dtype = self.nodes, self.voucher.weight.dtype
        row = torch.from_numpy(batch.row[batch.row != VOUCHER])
        vectors, price = graph.items[graph.kind[row]].to(dtype), graph.price[row, None].to(dtype)
        item = torch.cat([vectors, self.category(graph.category[row]), price], dim=1)
        member = torch.from_numpy(batch.slot // len(GROUPS))
        voucher = torch.cat([self.offer(code), torch.from_numpy(terms).to(dtype)], dim=1).index_select(0, member)
        place = torch.from_numpy(np.concatenate([np.flatnonzero(batch.row != VOUCHER), batch.start]))
        return item.new_zeros(batch.nodes, NODE).index_copy(0, place, torch.cat([item, voucher]))
