"""Variants of S3's DMBGN, to be compared with it."""

import torch
from torch import Tensor
from torch_geometric.nn import global_mean_pool

from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.graphs.voucher_graphs import VOUCHER, GraphBatch
from shadowprice.responses.vouchers.dmbgn import DmbgnModel
from shadowprice.responses.vouchers.dmbgn_network import NODE


class MeanItemEncoder(GroupEncoder):
    """S3's AvgPooling: the readout of a group is the mean of its items; voucher and edges are not read.

    O(N · F). Source: S3, section 4 (DMBGN-AvgPooling).
    """

    def __init__(self, inputs: int, outputs: int = WIDTH) -> None:
        super().__init__(inputs, outputs)

    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return means over the items (G, F); a graph that is not empty has at least one."""
        item = torch.from_numpy(batch.row != VOUCHER)
        found: Tensor = global_mean_pool(x[item], torch.from_numpy(batch.graph)[item], batch.slot.size)
        return found


class DmbgnAveragePoolingModel(DmbgnModel):
    """S3's DMBGN-AvgPooling: the mean of the item embeddings in place of the graph network.

    Attention over past sessions, scores and pre-training are those of DMBGN; ``ratio`` is not read.
    """

    def encoder(self) -> GroupEncoder:
        """The untrained mean over items."""
        return MeanItemEncoder(NODE)


class DmbgnBeforeOnlyModel(DmbgnModel):
    """S3's variant whose past sessions, too, are seen only up to their collection."""

    before_only = True
