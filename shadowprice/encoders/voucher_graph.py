"""S3's encoder of user-behaviour voucher graphs: two graph convolutions with top-K pooling, four readouts, one vector.

    h'(v) = relu(W₁·Σ_{w ∈ N(v) ∪ {v}} h(w) + b + W₂·h(v))       Morris et al. (2019), higher-order GraphConv
    y = h·p / ‖p‖,   keep the ⌈ratio·n⌉ greatest y,   h ← h·tanh(y)     top-K pooling, Gao and Ji (2019)
    readout of a graph: max ‖ mean over the nodes kept, added up over the two layers; zeros for an empty graph
    e_b = linear(readouts of the four groups)

The four groups share their weights.
"""

import math

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, TopKPooling, global_max_pool, global_mean_pool

from shadowprice.checks import require
from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.graphs.voucher_graphs import GraphBatch

RATIO = 0.9


class VoucherGraphEncoder(GroupEncoder):
    """Graph network of S3: convolve and pool twice, then add up the readouts of both layers.

    O(N · width²).

    Raises:
        InvalidInput: ``ratio`` is not above 0 and at most 1.
    """

    def __init__(self, inputs: int, outputs: int = WIDTH, *, width: int = WIDTH, ratio: float = RATIO) -> None:
        super().__init__(2 * width, outputs)
        require(0 < ratio <= 1, "ratio", "must be above 0 and at most 1")
        self.convolutions = nn.ModuleList([GraphConv(inputs, width), GraphConv(width, width)])
        # torch_geometric reads a ratio of 1 as one node. Rounded up, the number below 1 keeps them all.
        share = min(ratio, math.nextafter(1.0, 0.0))
        self.pools = nn.ModuleList([TopKPooling(width, share) for _ in self.convolutions])

    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return maximum and mean over the nodes kept, added up over the layers: (G, 2 · width)."""
        edges, graph, graphs = torch.from_numpy(batch.edge_index), torch.from_numpy(batch.graph), batch.slot.size
        total = x.new_zeros(graphs, self.readout_width)
        for convolution, pool in zip(self.convolutions, self.pools, strict=True):
            x, edges, _, graph, _, _ = pool(torch.relu(convolution(x, edges)), edges, batch=graph)
            total = total + torch.cat([global_max_pool(x, graph, graphs), global_mean_pool(x, graph, graphs)], dim=1)
        return total
