"""Sampling neighborhoods: the part of a large graph that a batch of accounts can see, thinned at hubs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.graphs.adjacency import Adjacency


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """A subgraph around some seed nodes.

    nodes       int64 (n,), nodes of the whole graph; the seeds come first, in their order
    edge_index  int64 (2, e): source, target, as positions in ``nodes``
    edges       int (e,), which edges of the whole graph these are
    """

    nodes: NDArray[np.int64]
    edge_index: NDArray[np.int64]
    edges: NDArray[np.integer]


class NeighborSampler:
    """Samples incoming edges of a graph, hop by hop (Hamilton et al. 2017), from a compressed sparse row index.

    A sum over the edges kept is not scaled up to stand for all edges. Scaled up it would be unbiased, but noisy, and a
    weight that is learned on noisy sums is too small for exact ones (errors in variables). What is left out of a sum,
    where neighbors differ independently, is noise of the response, which changes no weight.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._source, self._edge, self._start = adjacency.source, adjacency.edge, adjacency.start
        self._nodes = adjacency.nodes

    def sample(
        self, seeds: NDArray[np.int64], fanouts: Sequence[int | None], random: np.random.Generator
    ) -> Neighborhood:
        """The neighborhood of distinct ``seeds``, at most ``fanouts[h]`` edges into each node first met at hop h.

        A fan-out of None takes all edges.

        Every node's edges are drawn once: what hop h adds is what hop h + 1 expands. O(edges kept).
        """
        place = np.full(self._nodes, -1, dtype=np.int64)
        place[seeds] = np.arange(seeds.size)
        layers, frontier = [seeds], seeds
        kept, targets = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for fanout in fanouts:
            edges, row = self._incoming(frontier, fanout, random)
            kept.append(edges)
            targets.append(frontier[row])
            fresh = np.unique(self._source[edges]).astype(np.int64)
            fresh = fresh[place[fresh] < 0]
            place[fresh] = sum(part.size for part in layers) + np.arange(fresh.size)
            layers.append(fresh)
            frontier = fresh
        edges = np.concatenate(kept)
        return Neighborhood(
            nodes=np.concatenate(layers),
            edge_index=np.stack([place[self._source[edges]], place[np.concatenate(targets)]]),
            edges=self._edge[edges],
        )

    def _incoming(
        self, nodes: NDArray[np.int64], fanout: int | None, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the edges into ``nodes``, and the position in ``nodes`` of each edge's target."""
        degree = self._start[nodes + 1] - self._start[nodes]
        row = np.repeat(np.arange(nodes.size), degree)
        within = np.arange(row.size) - np.repeat(np.cumsum(degree) - degree, degree)
        edges = self._start[nodes][row] + within
        if fanout is None or not (degree > fanout).any():
            return edges, row
        # Rank the edges of a crowded node by a random key and keep the first ``fanout``.
        key = random.random(row.size)
        order = np.lexsort((key, row))
        keep = np.zeros(row.size, dtype=bool)
        keep[order] = within < fanout
        return edges[keep], row[keep]
