"""The edges into every node of a graph, as compressed sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHORT = 1 << 31
"""Numbers below take four bytes."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Edges by the node they lead to; arrays may be mapped files.

    start   int64 (N + 1,): edges ``start[u]`` to ``start[u + 1]`` lead into node u
    source  int (E,): where each comes from
    edge    int (E,): its number, such as that of a tie, which is an edge in both directions
    """

    start: NDArray[np.int64]
    source: NDArray[np.integer]
    edge: NDArray[np.integer]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.start.size - 1)

    @classmethod
    def of(cls, source: NDArray[np.integer], target: NDArray[np.integer], nodes: int) -> Adjacency:
        """The edges from ``source`` to ``target`` (E,), numbered as they stand. O(E), by counting.

        Example:
            >>> Adjacency.of(np.array([2, 0, 1]), np.array([1, 2, 1]), 3).start
            array([0, 0, 2, 3])
        """
        # Loaded here: a service that reads a bundle imports this module, and has no scipy.
        from scipy.sparse import coo_matrix

        # A column an edge: scipy would add up edges between the same two nodes.
        number = np.arange(source.size, dtype=np.int32 if source.size < SHORT else np.int64)
        matrix = coo_matrix((source, (target, number)), shape=(nodes, source.size)).tocsr()
        return cls(matrix.indptr.astype(np.int64), matrix.data, matrix.indices)

    @classmethod
    def both_ways(cls, ends: NDArray[np.integer], nodes: int) -> Adjacency:
        """Ties ``ends`` (2, E), each leading both ways under one number. O(E)."""
        ends = ends.astype(np.int32 if nodes < SHORT else np.int64)
        adjacency = cls.of(np.concatenate([ends[0], ends[1]]), np.concatenate([ends[1], ends[0]]), nodes)
        return cls(adjacency.start, adjacency.source, (adjacency.edge % max(ends.shape[1], 1)).astype(np.int32))

    @classmethod
    def side_by_side(cls, parts: Sequence[Adjacency]) -> Adjacency:
        """The union of graphs without common nodes, numbered one after another; one graph is taken as it is."""
        if len(parts) == 1:
            return parts[0]
        start, source, edge = [np.zeros(1, dtype=np.int64)], [], []
        nodes = edges = 0
        for part in parts:
            start.append(part.start[1:] + start[-1][-1])
            source.append(part.source + np.int64(nodes))
            edge.append(part.edge + np.int64(edges))
            nodes, edges = nodes + part.nodes, edges + int(part.edge.max(initial=-1)) + 1
        return cls(np.concatenate(start), np.concatenate(source), np.concatenate(edge))
