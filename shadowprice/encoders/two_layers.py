"""Encoders of two graph convolutions: H[0] = project(X), then twice h_u' = act(what neighbors send + U·h_u + c).

The term ``U·h`` keeps an account's own features from being diluted by the number of its ties.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GraphConv, SAGEConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import (
    WIDTH,
    Dense,
    EdgeGate,
    GraphEncoder,
    GraphTensors,
    SideProjection,
    affine,
    without_ties,
)

HEADS = 4


class TwoLayerEncoder(GraphEncoder):
    """Project, convolve twice. Inductive: weights depend on features, never on node numbers.

    layer      builds a convolution of a given input width
    gated      whether a network of an edge's features gives the edge a weight
    own_terms  whether ``U`` is apart from the convolution, which has none of its own
    """

    hops = 2
    layer: ClassVar[Callable[..., nn.Module]]
    gated: ClassVar[bool] = False
    own_terms: ClassVar[bool] = False

    def __init__(
        self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0, **layer_options: Any
    ) -> None:
        super().__init__()
        self.edge_inputs = edge_inputs
        self.project = SideProjection(inputs, dropout=dropout)
        if self.gated:
            self.gate = EdgeGate(edge_inputs)
        self.near = self.layer(self.project.width, **layer_options)
        self.near_self = nn.Linear(self.project.width, WIDTH, bias=False) if self.own_terms else None
        self.far = self.layer(WIDTH, **layer_options)
        self.far_self = nn.Linear(WIDTH, WIDTH, bias=False) if self.own_terms else None
        self.drop = nn.Dropout(dropout)

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """Arguments of both layers behind the hidden features: the edges, and their weights where they are gated."""
        weights = (self.gate(graph.edge_features),) if self.gated else ()
        return graph.edge_index, *weights

    def start(self, graph: GraphTensors) -> Tensor:
        """(N, 128): projected features."""
        hidden: Tensor = self.drop(self.project(graph))
        return hidden

    def hop(self, number: int, hidden: Tensor, /, *edges: Any) -> Tensor:
        """(N, WIDTH): one convolution."""
        convolved = self._convolve(number, hidden, *edges)
        return torch.relu(convolved) if number == 0 else convolved

    def _convolve(self, number: int, hidden: Tensor, *edges: Any) -> Tensor:
        layer, own = ((self.near, self.near_self), (self.far, self.far_self))[number]
        # A layer that adds what its neighbors are, before it projects the sum, would add in bfloat16.
        convolved: Tensor = layer(hidden.float(), *edges)
        return convolved if own is None else convolved + own(hidden)

    def readout(self, hidden: Sequence[Tensor]) -> Tensor:
        """Embeddings (N, WIDTH): the last hop."""
        return hidden[-1]

    def alone(self, side: Side) -> Dense:
        """The layers of the projection, and the two convolutions: without ties each is affine in the node itself."""
        layers = self.project.alone(side)
        for number, width in enumerate((self.project.width, WIDTH)):
            edges = self.edges(without_ties(width, self.edge_inputs))
            layers.append(affine(partial(self._convolve_on, number, edges), width))
        return layers

    def _convolve_on(self, number: int, edges: tuple[Any, ...], hidden: Tensor) -> Tensor:
        return self._convolve(number, hidden, *edges)


class Gcn2Encoder(TwoLayerEncoder):
    """Graph convolution of S0 (eq. 1) with a gate of ours: Σ_v gate_uv·W·h_v / sqrt(d_u d_v).

    d counts the ties of a node and the node itself.
    """

    # The normalization is ours: degrees are those of the whole graph, also where edges are sampled.
    layer = staticmethod(partial(GCNConv, out_channels=WIDTH, normalize=False, add_self_loops=False))
    gated = True
    own_terms = True

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """Edges with loops, and their weights."""
        index, gates = super().edges(graph)
        root = graph.degree.rsqrt()
        own = torch.arange(graph.nodes, device=graph.edge_index.device)
        source, target = graph.edge_index
        tie = gates * root[source] * root[target]
        return torch.cat([index, torch.stack([own, own])], dim=1), torch.cat([tie, 1.0 / graph.degree])


class Gat2Encoder(TwoLayerEncoder):
    """Graph attention (Veličković et al. 2018): ‖_heads Σ_v softmax_v(LeakyReLU(a·[W h_u ‖ W h_v ‖ E e_uv]))·W h_v.

    The sum goes over the neighbors and the node itself. Over sampled ties the attention is that among the sampled.
    """

    layer = staticmethod(partial(GATConv, out_channels=WIDTH // HEADS, heads=HEADS))
    own_terms = True

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__(inputs, edge_inputs, dropout, edge_dim=edge_inputs or None)

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """Edges, and their features where the layers read them."""
        return graph.edge_index, graph.edge_features if self.near.edge_dim else None


class GraphConvEncoder(TwoLayerEncoder):
    """GraphConv (Morris et al. 2019; S3's layer): W·Σ_v gate_uv·h_v.

    The sum keeps how many ties an account has, which a mean forgets. Where edges were sampled, each stands for several.
    """

    layer = staticmethod(partial(GraphConv, out_channels=WIDTH, aggr="add"))
    gated = True


class SageEncoder(TwoLayerEncoder):
    """GraphSAGE (Hamilton et al. 2017): W·mean_v h_v, for large sampled graphs. Edge features are not read.

    The mean over sampled ties estimates the mean over all of them, whatever a node's degree.
    """

    layer = staticmethod(partial(SAGEConv, out_channels=WIDTH, aggr="mean"))
