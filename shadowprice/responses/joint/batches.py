"""Input of a gradient step on a large graph: some rows and the neighbourhood they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.encoders.base import GraphTensors
from shadowprice.graphs.sampler import NeighbourSampler
from shadowprice.responses.joint.network import Rows, RowTensors

Step = tuple[GraphTensors, dict[Side, RowTensors]]

FANOUTS = (20, 10)
"""Edges kept into an account at the first and second hop; few accounts have more."""


class SampledNeighbourhoods:
    """Steps of about ``size`` rows, each with a sampled two-hop neighbourhood (S0 trains on k-hop subgraphs)."""

    def __init__(self, graph: GraphTensors, rows: Mapping[Side, Rows], size: int, seed: int) -> None:
        self._graph, self._rows, self._seed = graph, rows, seed
        self._sampler = NeighbourSampler(graph.edge_index.numpy(), graph.nodes)
        self._steps = max(1, round(max(len(part) for part in rows.values()) / size))

    def steps(self, epoch: int) -> Iterator[Step]:
        """Rows in an order that depends on the epoch, every row once."""
        random = np.random.default_rng([self._seed, epoch])
        order = {side: np.array_split(random.permutation(len(part)), self._steps) for side, part in self._rows.items()}
        for step in range(self._steps):
            chosen = {side: self._rows[side].take(index[step]) for side, index in order.items()}
            yield self._around(chosen, random)

    def _around(self, rows: Mapping[Side, Rows], random: np.random.Generator) -> Step:
        asked = np.concatenate([np.concatenate([part.node, part.partner]) for part in rows.values()])
        seeds = np.unique(asked[asked >= 0])
        seen = self._sampler.sample(seeds, FANOUTS, random)

        def local(nodes: NDArray[np.int64]) -> torch.Tensor:
            return torch.from_numpy(np.where(nodes >= 0, np.searchsorted(seeds, nodes), -1))

        tensors: dict[Side, RowTensors] = {}
        for side, part in rows.items():
            tensors[side] = replace(part.tensors(), node=local(part.node), partner=local(part.partner))
        return self._graph.around(seen), tensors
