"""Base of the encoders of voucher graphs: a readout of each group of behaviours, and one linear layer over the four.

e_b = linear(readout of before-cart ‖ before-order ‖ after-cart ‖ after-order),   zeros for an empty group
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, GraphBatch

WIDTH = 16


class GroupEncoder(nn.Module, ABC):
    """Encoder of node features (N, F) of a batch of B sessions as e_b (B, outputs).

    A session without behaviour receives the bias of the last layer.

    Args:
        width: of the readout of one group.
        outputs: width of e_b.
    """

    def __init__(self, width: int, outputs: int = WIDTH) -> None:
        super().__init__()
        self.readout_width = width
        self.out = nn.Linear(width * len(GROUPS), outputs)

    @abstractmethod
    def read(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return the readouts (G, width) of the groups that are not empty, of which there is at least one."""

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return e_b (B, outputs) of node features (N, F)."""
        output: Tensor = self.out(self.readout(x, batch))
        return output

    def both(self, x: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return e_b (B, outputs) of the behaviour before the collection, and e_b of the whole.

        Groups are separate graphs, so one pass serves both.
        """
        read = self.readout(x, batch)
        known = read.shape[1] * BEFORE_GROUPS // len(GROUPS)
        return self.out(torch.cat([read[:, :known], torch.zeros_like(read[:, known:])], dim=1)), self.out(read)

    def readout(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Return the readouts of the four groups side by side, (B, 4 · width)."""
        spread = x.new_zeros(batch.size * len(GROUPS), self.readout_width)
        if batch.nodes:
            spread = spread.index_copy(0, torch.from_numpy(batch.slot), self.read(x, batch))
        return spread.view(batch.size, len(GROUPS) * self.readout_width)
