"""A convolution over a graph too large for the messages of all its edges at once: some target nodes after others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from shadowprice.encoders.side_by_side import side_by_side

MOST_EDGES = 500_000
"""Edges whose messages are held at a time where nothing is learnt from them."""

Convolution = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def in_parts(
    layer: Convolution, hidden: Tensor, edge_index: Tensor, edges: Tensor | None, most: int = MOST_EDGES
) -> Tensor:
    """``layer(hidden, edge_index, edges)``, exactly, in memory of ``most`` edges and the nodes they touch, for
    each of torch's threads.

    A node's row of a convolution is a function of its own row, of the edges that end in it and of where they come from;
    so each part holds some nodes with all edges that end in them. With gradients, or where ``most`` edges suffice, the
    graph is one part. O(E log E + what the layer costs on the parts).

    Args:
        layer: (N, D), (2, E), (E, F) or None → (N, W).
        hidden: (N, D).
        edge_index: int64 (2, E), source and target.
        edges: (E, F), features of the edges, or None.
        most: edges of a part, except where more end in one node.
    """
    count = edge_index.shape[1]
    if torch.is_grad_enabled() or count <= most:
        return layer(hidden, edge_index, edges)
    nodes = hidden.shape[0]
    order = torch.argsort(edge_index[1], stable=True)
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(edge_index[1], minlength=nodes).cumsum(0)])

    def part(between: tuple[int, int]) -> Tensor:
        first, last = between
        chosen = order[int(ends[first]) : int(ends[last])]
        source, target = edge_index[0, chosen], edge_index[1, chosen] - first
        own = torch.arange(first, last)
        others = torch.unique(source[(source < first) | (source >= last)])
        held = torch.cat([own, others])
        place = torch.empty(nodes, dtype=torch.int64)
        place[held] = torch.arange(held.numel())
        local = torch.stack([place[source], target])
        return layer(hidden[held], local, None if edges is None else edges[chosen])[: own.numel()]

    borders = [0]
    while borders[-1] < nodes:
        first = borders[-1]
        borders.append(max(int(torch.searchsorted(ends, int(ends[first]) + most, right=True)) - 1, first + 1))
    return torch.cat(side_by_side(part, pairwise(borders)))
