"""Graph attention (Veličković et al. 2018) without a message per edge.

    out_u = ‖_heads Σ_v α_uv·W h_v + b
    α_uv = softmax_v LeakyReLU(a_s·W h_v + a_t·W h_u + (W_eᵀ a_e)·e_uv)

A score is the sum of a number of each end and one of the edge: an edge has a number for each head and never a vector.
The sums over neighbours are products of a sparse matrix of the α and the rows W h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag, leaky_relu
from torch_geometric.nn import GATConv, Linear

from shadowprice.encoders.incoming import Incoming
from shadowprice.encoders.side_by_side import side_by_side


def attend(layer: GATConv, x: Tensor, edges: Incoming) -> Tensor:
    """What ``layer``, with its heads side by side, gives of nodes (N, D) and the edges that end in each: (N, W).

    The same function with the same gradients; no dropout. Without gradients the heads are computed on as many threads
    as torch has. O(N·D·W + E·(heads·F + W)), memory O(E + N·W) for each thread.
    """
    heads, width = layer.heads, layer.out_channels
    hidden = layer.lin(x).view(-1, heads, width)
    away, towards = (_directions(layer.lin, each) @ x.T for each in (layer.att_src, layer.att_dst))
    along = None if layer.lin_edge is None else _directions(layer.lin_edge, layer.att_edge)
    start = edges.start.numpy()
    into = edges.start.diff()

    def of(head: int) -> Tensor:
        score = away[head][edges.source] + towards[head].repeat_interleave(into)
        if along is not None:
            score = score + edges.features @ along[head]
        share = _Softmax.apply(leaky_relu(score, layer.negative_slope), start)  # type: ignore[no-untyped-call]
        found: Tensor = embedding_bag(
            edges.source,
            hidden[:, head].contiguous(),
            edges.start,
            mode="sum",
            per_sample_weights=share,
            include_last_offset=True,
        )
        return found

    together: Tensor = torch.cat(side_by_side(of, range(heads)), dim=1) + layer.bias
    return together


def _directions(linear: Linear, attention: Tensor) -> Tensor:
    """(H, D): for each head what takes x to a·(W x), with ``attention`` (1, H, C) and W of ``linear`` (H·C, D)."""
    _, heads, width = attention.shape
    found: Tensor = (linear.weight.view(heads, width, -1) * attention[0][:, :, None]).sum(dim=1)
    return found


class _Softmax(torch.autograd.Function):
    """Softmax of scores (E,) among those of each stretch ``start[u]`` to ``start[u + 1]``, none of which is empty."""

    @staticmethod
    def forward(ctx: Any, score: Tensor, start: NDArray[np.int64]) -> Tensor:
        first, length = start[:-1], np.diff(start)
        share = score.detach().numpy()
        share = np.exp(share - np.repeat(np.maximum.reduceat(share, first), length))
        share /= np.repeat(np.add.reduceat(share, first), length)
        found = torch.from_numpy(share)
        ctx.save_for_backward(found)
        ctx.start = start
        return found

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        (found,) = ctx.saved_tensors
        first, length = ctx.start[:-1], np.diff(ctx.start)
        share = found.numpy()
        pulled = share * gradient[0].numpy()
        pulled -= share * np.repeat(np.add.reduceat(pulled, first), length)
        return torch.from_numpy(pulled), None
