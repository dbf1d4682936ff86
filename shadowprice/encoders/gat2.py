"""Two layers of graph attention (Veličković et al. 2018), edge features in the attention.

    H[0] = project(X),   h_u' = act(‖_heads Σ_v α_uv·W h_v + U·h_u + c)
    α_uv = softmax_v(LeakyReLU(a·[W h_u ‖ W h_v ‖ E e_uv]))

over v in the neighbours of u and u itself. The term U h keeps an account's own features from competing with its ties
for attention. Over sampled ties the attention is that among the sampled.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors, SideProjection

HEADS = 4


class Gat2Encoder(GraphEncoder):
    """Project, attend twice with ``HEADS`` heads. Inductive: weights know features, never node numbers."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = SideProjection(inputs, dropout=dropout)
        edge_dim = edge_inputs or None
        self.near = GATConv(self.project.width, WIDTH // HEADS, heads=HEADS, edge_dim=edge_dim)
        self.near_self = nn.Linear(self.project.width, WIDTH, bias=False)
        self.far = GATConv(WIDTH, WIDTH // HEADS, heads=HEADS, edge_dim=edge_dim)
        self.far_self = nn.Linear(WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH)."""
        hidden = self.drop(self.project(graph))
        edges = graph.edge_features if self.near.edge_dim else None
        hidden = torch.relu(self.near(hidden, graph.edge_index, edges) + self.near_self(hidden))
        embedding: Tensor = self.far(hidden, graph.edge_index, edges) + self.far_self(hidden)
        return embedding
