"""S3's AvgPooling encoder: the mean of the item embeddings of each group in place of the graph network."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import global_mean_pool

from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.graphs.voucher_graphs import VOUCHER, GraphBatch


class MeanItemEncoder(GroupEncoder):
    """Encoder whose readout of a group is the mean of its items' features; voucher and edges are not read.

    O(N · F). Source: S3, section 4 (DMBGN-AvgPooling).
    """

    def __init__(self, inputs: int, outputs: int = WIDTH) -> None:
        super().__init__(inputs, outputs)

    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return means over the items (G, F); a graph that is not empty has at least one."""
        item = torch.from_numpy(batch.row != VOUCHER)
        found: Tensor = global_mean_pool(x[item], torch.from_numpy(batch.graph)[item], batch.slot.size)
        return found
