"""No graph: the embedding is a network of the account's own features (the encoder of S0's DNN and DNN-H)."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, Dense, GraphEncoder, GraphTensors, SideProjection, layer_of


class NoGraphEncoder(GraphEncoder):
    """Dense layers 256, 128 and 64 on own features; edges are not read."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        del edge_inputs
        self.project = SideProjection(inputs, dropout=dropout)
        self.out = nn.Linear(self.project.width, WIDTH)

    def start(self, graph: GraphTensors) -> Tensor:
        """(N, 128): projected features."""
        hidden: Tensor = self.project(graph)
        return hidden

    def readout(self, hidden: Sequence[Tensor]) -> Tensor:
        """Embeddings (N, WIDTH)."""
        embedding: Tensor = self.out(hidden[0])
        return embedding

    def alone(self, side: Side) -> Dense:
        """The layers themselves."""
        return [*self.project.alone(side), layer_of(self.out)]
