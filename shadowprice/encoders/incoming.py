"""The edges of a graph in order of the node that they end in, each node with one to itself: what attention reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Incoming:
    """E edges that end in N nodes; no node is without one, for one comes from itself.

    source    int64 (E,), where each comes from
    start     int64 (N + 1,): those of node u are at start[u] to start[u + 1]
    features  float32 (E, F); an edge of a node to itself has the mean of the others that end there, zeros without any
    """

    source: Tensor
    start: Tensor
    features: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, features: Tensor, nodes: int) -> Incoming:
        """From edges (2, E) in any order: edges of a node to itself are replaced, as torch_geometric does. O(E + N)."""
        other = edge_index[0] != edge_index[1]
        if not bool(other.all()):
            edge_index, features = edge_index[:, other], features[other]
        own = torch.arange(nodes)
        source, target = torch.cat([edge_index, own.expand(2, nodes)], dim=1)
        # Each edge a column of its own: making the matrix is a counting sort of the edges by their target.
        number = np.arange(target.numel())
        into = csr_matrix((np.ones(number.size, dtype=np.float32), (target.numpy(), number)), (nodes, number.size))
        start, order = (torch.from_numpy(each.astype(np.int64)) for each in (into.indptr, into.indices))
        none = features.new_zeros(nodes, features.shape[1])
        total = torch.from_numpy(into @ torch.cat([features, none]).numpy())
        mean = total / (start.diff() - 1).clamp(min=1)[:, None]
        return cls(source[order], start, torch.cat([features, mean])[order])
