"""A convolution in parts is the convolution."""

import pytest
import torch
from torch_geometric.nn import GATConv, GraphConv

from shadowprice.encoders.parts import in_parts


def layer(name: str):
    torch.manual_seed(1)
    if name == "attention":
        return GATConv(5, 4, heads=2, edge_dim=3)
    made = GraphConv(5, 8)
    return lambda hidden, index, edges: made(hidden, index)


@pytest.mark.parametrize("name", ["attention", "sum"])
@pytest.mark.parametrize("most", [1, 7, 60, 1000])
def test_in_parts_it_is_the_whole_also_for_nodes_without_edges_and_with_more_than_a_part_holds(
    name: str, most: int
) -> None:
    torch.manual_seed(0)
    nodes = 40
    # Node 3 is where most edges end; the first and the last nodes have none.
    index = torch.randint(2, nodes - 3, (2, 200))
    index[1, :80] = 3
    hidden, edges = torch.randn(nodes, 5), torch.randn(200, 3)
    conv = layer(name)
    with torch.no_grad():
        whole = conv(hidden, index, edges)
        found = in_parts(conv, hidden, index, edges, most)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)


def test_where_something_is_learnt_the_graph_is_one_part() -> None:
    calls = []
    hidden, index = torch.randn(4, 2, requires_grad=True), torch.tensor([[0, 1, 2], [1, 2, 3]])

    def conv(hidden, index, edges):
        calls.append(index.shape[1])
        return hidden

    in_parts(conv, hidden, index, None, 1).sum().backward()
    assert calls == [3]
