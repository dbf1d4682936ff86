"""Attention without messages is torch_geometric's, gradients included."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GATConv

from shadowprice.encoders.attention import attend
from shadowprice.encoders.incoming import Incoming

NODES, EDGES, INPUTS, FEATURES = 40, 300, 6, 3


def edges() -> tuple[Tensor, Tensor]:
    """Node 3 is a hub, pairs repeat, some nodes have an edge to themselves, the first and the last two have none."""
    random = torch.Generator().manual_seed(0)
    index = torch.randint(1, NODES - 2, (2, EDGES), generator=random)
    index[1, :80] = 3
    index[:, 80:84] = torch.tensor([[5, 5, 7, 8], [5, 5, 9, 8]])
    return index, torch.randn(EDGES, FEATURES, generator=random, dtype=torch.float64)


def layer(reads_edges: bool) -> GATConv:
    torch.manual_seed(1)
    made = GATConv(INPUTS, 5, heads=2, edge_dim=FEATURES if reads_edges else None).double()
    torch.nn.init.normal_(made.bias)
    return made


@pytest.mark.parametrize("reads_edges", [True, False])
def test_it_is_torch_geometrics_with_the_same_gradients(reads_edges: bool) -> None:
    index, features = edges()
    made = layer(reads_edges)
    x = torch.randn(NODES, INPUTS, dtype=torch.float64, requires_grad=True)
    asked = [x, *made.parameters()]
    weight = torch.randn(NODES, 10, dtype=torch.float64)
    expected = made(x, index, features if reads_edges else None)
    found = attend(made, x, Incoming.of(index, features, NODES))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    ours, theirs = (torch.autograd.grad((each * weight).sum(), asked) for each in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("threads", [1, 3])
def test_without_gradients_it_is_the_same_on_any_number_of_threads(threads: int) -> None:
    index, features = edges()
    made, x = layer(True), torch.randn(NODES, INPUTS, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            found = attend(made, x, Incoming.of(index, features, NODES))
            torch.testing.assert_close(found, made(x, index, features), rtol=1e-10, atol=1e-12)
    finally:
        torch.set_num_threads(before)


def test_scores_of_thousands_neither_overflow_nor_vanish() -> None:
    index, features = edges()
    made, x = layer(True).float(), 3e3 * torch.randn(NODES, INPUTS)
    found = attend(made, x, Incoming.of(index, features.float(), NODES))
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, made(x, index, features.float()), rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize("width", [FEATURES, 0])
def test_edges_stand_by_their_target_and_each_node_has_one_to_itself_with_the_mean_features(width: int) -> None:
    index, features = edges()
    features = features[:, :width]
    found = Incoming.of(index, features, NODES)
    for node in range(NODES):
        ends = [number for number, (source, target) in enumerate(index.T.tolist()) if target == node != source]
        mean = features[ends].mean(dim=0) if ends else torch.zeros(width, dtype=torch.float64)
        between = slice(int(found.start[node]), int(found.start[node + 1]))
        assert found.source[between].tolist() == [*index[0, ends].tolist(), node]
        np.testing.assert_allclose(found.features[between], torch.cat([features[ends], mean[None]]), atol=1e-12)
