"""The part of a consumption graph that one step of training passes over."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shadowprice.encoders.base import GraphTensors
from shadowprice.graphs.sampler import NeighbourSampler
from shadowprice.responses.joint.batches import FANOUTS

WHOLE_GRAPH = 50_000
"""Nodes up to which a step passes over the whole graph; beyond, over a sampled neighbourhood of its rows."""


class Neighbourhoods:
    """Graph of a training step: the whole one, or where it is large a sampled neighbourhood of the step's rows."""

    def __init__(self, graph: GraphTensors | None, seed: int) -> None:
        self._graph, self._seed = graph, seed
        large = graph is not None and graph.nodes > WHOLE_GRAPH
        self._sampler = NeighbourSampler(graph.adjacency) if graph is not None and large else None

    def of(self, node: Tensor | None, epoch: int) -> tuple[GraphTensors | None, Tensor | None]:
        """A graph and the rows' nodes in it; the sample depends on the epoch and the nodes alone."""
        if self._graph is None or self._sampler is None or node is None:
            return self._graph, node
        seeds, place = np.unique(node.numpy(), return_inverse=True)
        random = np.random.default_rng([self._seed, 1, epoch, *seeds[:1].tolist()])
        seen = self._sampler.sample(seeds, FANOUTS, random)
        return self._graph.around(seen), torch.from_numpy(place)
