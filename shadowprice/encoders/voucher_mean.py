"""S3's AvgPooling encoder: the mean of the item embeddings of each group in place of the graph network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder, sparse_product
from shadowprice.graphs.voucher_graphs import GraphBatch


class MeanItemEncoder(GroupEncoder):
    """readout of a group = mean of what its items start from; the voucher and the edges are not read.

    O(N · F). Source: S3, section 4 (DMBGN-AvgPooling).
    """

    def __init__(self, inputs: int, outputs: int = WIDTH) -> None:
        super().__init__(inputs, outputs)

    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(G, F): means over the items; a graph that is not empty has at least one."""
        is_item = np.ones(batch.nodes, dtype=bool)
        is_item[batch.start] = False  # the first node of a graph is its voucher
        items = x * torch.from_numpy(is_item).to(x.dtype)[:, None]
        return sparse_product(batch.members, items) / torch.from_numpy(batch.length - 1).to(x.dtype)[:, None]
