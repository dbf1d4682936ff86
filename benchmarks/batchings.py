"""Batches and encoders that training does not use, to compare it with: what the literature does on large graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.encoders.base import GraphTensors
from shadowprice.encoders.sgc2 import HOP_WIDTH, Sgc2Encoder
from shadowprice.encoders.two_layers import SageEncoder
from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.communities import communities
from shadowprice.graphs.sampler import Neighbourhood, NeighbourSampler
from shadowprice.responses.joint.batches import EPOCH_STEPS, Step, TrainingData
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.joint.network import Rows, RowTensors

CLUSTERS = 256
"""Parts that the graph is cut into; a step takes several."""


class PygSage(SageEncoder):
    """Two ``SAGEConv`` layers of PyTorch Geometric on sparse rows (CSR), as its guide to sparse tensors has them."""

    _rows: tuple[GraphTensors, Tensor] | None = None

    @classmethod
    def into(cls, model: JointModel) -> None:
        """Put this encoder in the place of the model's."""
        inputs = {side: fitted.width for side, fitted in model.scaling.node.items()}
        model.network.encoder = cls(inputs, model.scaling.edge.width)

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """The sparse rows, made once for a graph."""
        if self._rows is None or self._rows[0] is not graph:
            source, target = graph.edge_index
            with warnings.catch_warnings():
                # torch calls its sparse rows a beta.
                warnings.simplefilter("ignore", UserWarning)
                ends = torch.stack([target, source])
                size = (graph.nodes, graph.nodes)
                rows = torch.sparse_coo_tensor(ends, torch.ones(source.numel()), size).to_sparse_csr()
            self._rows = graph, rows
        return (self._rows[1],)


@dataclass(frozen=True, eq=False)
class Part(GraphTensors):
    """A part of a graph.

    number  int64 (n,), nodes of the whole graph, its own before those that only send
    own     how many are its own
    """

    number: Tensor
    own: int


class Clusters:
    """Steps on random unions of clusters, with all rows of their accounts (Chiang et al. 2019).

    Args:
        data: graph and rows.
        halo: whether the neighbours outside are there too, whose hidden features the encoder remembers.

    ``ClusterData`` of PyTorch Geometric needs pyg-lib or torch-sparse, which are not installed. The clusters are
    those of :func:`~shadowprice.graphs.communities.communities`. A tie that leaves the clusters of a step is not there.
    """

    count = EPOCH_STEPS

    def __init__(self, data: TrainingData, halo: bool = False) -> None:
        self._data, self._halo = data, halo
        into = data.graph.adjacency
        target = np.repeat(np.arange(into.nodes), np.diff(into.start))
        most = -(-into.nodes // CLUSTERS)
        self._cluster = communities(np.stack([into.source, target]), into.nodes, most)
        self._sampler = NeighbourSampler(into)
        self.held_out: Step = data.graph.whole, {side: rows.tensors() for side, rows in data.validation.items()}

    def steps(self, epoch: int) -> Iterator[Step]:
        """Every cluster once, in an order that depends on the epoch."""
        order = np.random.default_rng([0, epoch]).permutation(int(self._cluster.max()) + 1)
        for some in np.array_split(order, self.count):
            yield self._step(np.flatnonzero(np.isin(self._cluster, some)))

    def _step(self, own: NDArray[np.int64]) -> Step:
        seen = self._sampler.sample(own, (None,), np.random.default_rng(0))
        if not self._halo:
            inside = (seen.edge_index < own.size).all(axis=0)
            seen = replace(
                seen,
                nodes=own,
                edge_index=seen.edge_index[:, inside],
                edges=seen.edges[inside],
            )
        graph = self._data.graph.around(seen)
        fields = {name: getattr(graph, name) for name in GraphTensors.__dataclass_fields__}
        part = Part(**fields, number=torch.from_numpy(seen.nodes), own=own.size)
        rows = {side: self._rows(each, own) for side, each in self._data.train.items()}
        return part, rows

    def _rows(self, rows: Rows, own: NDArray[np.int64]) -> RowTensors:
        place = np.searchsorted(own, rows.node).clip(max=own.size - 1)
        mine = rows.take(own[place] == rows.node)
        partner = np.searchsorted(own, mine.partner).clip(max=own.size - 1)
        known = (mine.partner >= 0) & (own[partner] == mine.partner)
        node = torch.from_numpy(np.searchsorted(own, mine.node))
        return replace(mine.tensors(), node=node, partner=torch.from_numpy(np.where(known, partner, -1)))


class History(Sgc2Encoder):
    """The encoder with historical embeddings (GNNAutoScale: Fey et al. 2021).

    Neighbours outside a part send what they sent when they were last in one.
    """

    before: tuple[Tensor, ...] = ()

    @classmethod
    def into(cls, model: JointModel) -> None:
        """Let the model's encoder remember."""
        model.network.encoder.__class__ = cls

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings of a part's own nodes; of a whole graph, of all."""
        if not isinstance(graph, Part):
            return super().forward(graph)
        nodes = int(graph.number.max()) + 1
        before = self.before or tuple(torch.zeros(0, HOP_WIDTH) for _ in range(self.hops))
        more = max(nodes - before[0].shape[0], 0)
        self.before = tuple(torch.cat([each, torch.zeros(more, HOP_WIDTH)]) for each in before) if more else before
        own, hidden = slice(0, graph.own), [self.start(graph)[: graph.own]]
        edges = self.edges(graph)
        for number, memory in enumerate(self.before):
            memory[graph.number[own]] = hidden[-1].detach()
            sent = torch.cat([hidden[-1], memory[graph.number[graph.own :]]])
            hidden.append(self.hop(number, sent, *edges)[: graph.own])
        return self.readout(hidden)


class LayerSampler(NeighbourSampler):
    """Keeps a number of accounts at each hop, drawn by their ties to the hop before (LADIES: Zou et al. 2019).

    The fan-out of a hop is the number of accounts. Sums are of the edges kept, as elsewhere here.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        super().__init__(adjacency)
        self._into = adjacency

    def sample(
        self, seeds: NDArray[np.int64], fanouts: Sequence[int | None], random: np.random.Generator
    ) -> Neighbourhood:
        """The edges from the accounts that are kept at each hop into those of the hop before."""
        found, place = [seeds], np.full(self._into.nodes, -1, dtype=np.int64)
        place[seeds] = np.arange(seeds.size)
        frontier, kept = seeds, list[Mapping[str, NDArray[Any]]]()
        for fanout in fanouts:
            every = super().sample(frontier, (None,), random)
            source = every.nodes[every.edge_index[0]]
            names, position, ties = np.unique(source, return_inverse=True, return_counts=True)
            # Accounts that are there already send for nothing; of the others so many are drawn.
            chance = np.where(place[names] >= 0, 1.0, np.minimum(1.0, (fanout or names.size) * ties / ties.sum()))
            taken = random.random(names.size) < chance
            inside = taken[position]
            fresh = names[taken & (place[names] < 0)]
            place[fresh] = sum(map(len, found)) + np.arange(fresh.size)
            found.append(fresh)
            target = every.nodes[every.edge_index[1]][inside]
            ends = np.stack([place[source[inside]], place[target]])
            kept.append({"ends": ends, "edges": every.edges[inside]})
            frontier = fresh
        return Neighbourhood(
            nodes=np.concatenate(found),
            edge_index=np.concatenate([each["ends"] for each in kept], axis=1),
            edges=np.concatenate([each["edges"] for each in kept]),
        )
