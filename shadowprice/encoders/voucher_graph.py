"""S3's encoder of user-behaviour voucher graphs: two graph convolutions with top-K pooling, four readouts, one vector.

    h'(v) = relu(W₁·Σ_{w ∈ N(v) ∪ {v}} h(w) + b + W₂·h(v))       Morris et al. (2019), higher-order GraphConv
    y = h·p / ‖p‖,   keep the ⌈ratio·n⌉ greatest y,   h ← h·tanh(y)     top-K pooling, Gao and Ji (2019)
    readout of a graph: max ‖ mean over the nodes kept, added up over the two layers; zeros for an empty graph
    e_b = linear(readouts of the four groups)

Groups share their weights. Nodes that pooling drops are masked and not cut out: a node at zero adds nothing to its
neighbours' sums, so the edges need not be built again. Where :mod:`shadowprice.encoders.kernel` was built, all of it is
one pass in C; the modules below are the same in torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from shadowprice.encoders.kernel import graphs as kernel
from shadowprice.encoders.kernel.compiled import IS_COMPILED
from shadowprice.encoders.kernel.graphs import GraphPass
from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder, sparse_product
from shadowprice.encoders.voucher_nodes import Nodes
from shadowprice.errors import InvalidInput
from shadowprice.graphs.voucher_graphs import GraphBatch

RATIO = 0.9


class _Pass(torch.autograd.Function):
    """e_b of a batch by the compiled pass, whole and, if split, of what came before the collection (or nothing)."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Nodes, batch: GraphBatch, ratio: float, split: bool, *tensors: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        ctx.computed = GraphPass(nodes, batch, ratio, tensors[len(nodes.learned) :])
        ctx.set_materialize_grads(False)
        found: tuple[Tensor, Tensor | None] = ctx.computed.forth(split=split)
        return found

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, None, None, None, *ctx.computed.back(*gradient)


class _LargestOfEach(torch.autograd.Function):
    """Greatest value of each graph and column; equal ones share the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, batch: GraphBatch) -> Tensor:
        most = torch.segment_reduce(x, "max", lengths=torch.from_numpy(batch.length), axis=0, unsafe=True)
        ctx.save_for_backward(x, most)
        ctx.batch = batch
        return most

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        # torch's own backward takes forty times as long as its forward.
        batch: GraphBatch = ctx.batch
        x, most = ctx.saved_tensors
        graph = torch.from_numpy(batch.graph)
        where = (x == most.index_select(0, graph)).to(x.dtype)
        share = gradient[0] / torch.from_numpy(batch.members @ where.numpy())
        return where.mul_(share.index_select(0, graph)), None


def largest_of_each(x: Tensor, batch: GraphBatch, kept: NDArray[np.bool_]) -> Tensor:
    """(G, D): the maximum over each graph's nodes that are ``kept`` (N,), of which every graph has one."""
    if not kept.all():
        x = x.masked_fill(torch.from_numpy(~kept)[:, None], -torch.inf)
    found: Tensor = _LargestOfEach.apply(x, batch)  # type: ignore[no-untyped-call]
    return found


class GraphConv(nn.Module):
    """One convolution; weights named as those of torch_geometric's ``GraphConv``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin_rel = nn.Linear(inputs, outputs)
        self.lin_root = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, neighbours: csr_matrix) -> Tensor:
        """(N, outputs), before the activation; ``neighbours`` (N, N) says which rows are summed for each node."""
        found: Tensor = self.lin_rel(sparse_product(neighbours, x)) + self.lin_root(x)
        return found


class TopKPooling(nn.Module):
    """Keeps the ⌈ratio·n⌉ nodes of each graph that score highest, and gates them by their scores."""

    def __init__(self, width: int, ratio: float = RATIO) -> None:
        super().__init__()
        if not 0 < ratio <= 1:
            raise InvalidInput("must be above 0 and at most 1", field="ratio")
        self.ratio = ratio
        self.weight = nn.Parameter(torch.empty(1, width))
        nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor, batch: GraphBatch, kept: NDArray[np.bool_] | None) -> tuple[Tensor, NDArray[np.bool_]]:
        """Gated (N, D), zeros at nodes dropped, and which are kept (N,); ``kept`` are those there still are."""
        gate = torch.tanh(x @ (self.weight[0] / self.weight.norm()))
        keep = self._keep(gate.detach().numpy(), batch, kept)
        if not keep.all():
            gate = gate * torch.from_numpy(keep)
        return x * gate[:, None], keep

    def _keep(
        self, score: NDArray[np.floating[Any]], batch: GraphBatch, kept: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        keep = np.ones(batch.nodes, dtype=bool) if kept is None else kept.copy()
        alive = batch.length if kept is None else np.add.reduceat(kept.astype(np.int64), batch.start)
        # 0.9 is not a binary fraction: without the slack, 0.9 · 10 might ask for a tenth node.
        drop = alive - np.ceil(self.ratio * alive - 1e-6).astype(np.int64)
        shrinks = np.flatnonzero((drop > 0)[batch.graph] & keep)
        graph = batch.graph[shrinks]
        # Gates lie within ±1: one number orders by graph and then by gate, at a fraction of a sort by two keys.
        order = np.argsort(3.0 * graph + score[shrinks])
        graph = graph[order]
        rank = np.arange(graph.size) - np.searchsorted(graph, graph)
        keep[shrinks[order[rank < drop[graph]]]] = False
        return keep


class VoucherGraphEncoder(GroupEncoder):
    """The graph network: two convolutions with top-K pooling, and the readouts of both layers added up."""

    def __init__(self, inputs: int, outputs: int = WIDTH, *, width: int = WIDTH, ratio: float = RATIO) -> None:
        super().__init__(2 * width, outputs)
        self.width, self.ratio = width, ratio
        self.convolutions = nn.ModuleList([GraphConv(inputs, width), GraphConv(width, width)])
        self.pools = nn.ModuleList([TopKPooling(width, ratio), TopKPooling(width, ratio)])
        # In the compiled pass's order. To walk through the modules takes as long as all else before the first graph.
        layers = [each for pair in zip(self.convolutions, self.pools, strict=True) for each in pair]
        self.weights = [each for module in (*layers, self.out) for each in module.parameters()]

    def forward(self, x: Tensor | Nodes, batch: GraphBatch) -> Tensor:
        """(B, outputs) of nodes as they are or features (N, F). O(N · width²)."""
        nodes = x if isinstance(x, Nodes) else Nodes.dense(x, batch)
        return self._pass(nodes, batch, split=False)[0] if self._passes(nodes, batch) else super().forward(nodes, batch)

    def both(self, nodes: Nodes, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """(B, outputs) twice: the behaviour before the collection, and the whole."""
        if not self._passes(nodes, batch):
            return super().both(nodes, batch)
        whole, before = self._pass(nodes, batch, split=True)
        return before, whole

    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(G, 2 · width): maximum and mean over the nodes kept, added up over the layers, in torch."""
        total = x.new_zeros(batch.length.size, 2 * self.width)
        kept: NDArray[np.bool_] | None = None
        for convolution, pool in zip(self.convolutions, self.pools, strict=True):
            x, kept = pool(torch.relu(convolution(x, batch.neighbours)), batch, kept)
            count = torch.from_numpy(np.add.reduceat(kept.astype(np.int64), batch.start)).to(x.dtype)
            mean = sparse_product(batch.members, x) / count[:, None]
            total = total + torch.cat([largest_of_each(x, batch, kept), mean], dim=1)
        return total

    def _passes(self, nodes: Nodes, batch: GraphBatch) -> bool:
        fixed = kernel.WIDTH if nodes.fixed is None else nodes.fixed.shape[1]
        return IS_COMPILED and self.width == self.out.out_features == fixed == kernel.WIDTH and batch.nodes > 0

    def _pass(self, nodes: Nodes, batch: GraphBatch, *, split: bool) -> tuple[Tensor, Tensor]:
        pieces = [each.values for each in nodes.learned]
        found: tuple[Tensor, Tensor] = _Pass.apply(nodes, batch, self.ratio, split, *pieces, *self.weights)  # type: ignore[no-untyped-call]
        return found
