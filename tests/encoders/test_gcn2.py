import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from shadowprice.encoders.base import WIDTH, GraphTensors
from shadowprice.encoders.gcn2 import Gcn2Encoder
from shadowprice.encoders.registry import make_encoder
from shadowprice.errors import NotFound
from shadowprice.graphs.sampler import NeighbourSampler
from shadowprice.testing import assert_permutation_equivariant

CUSTOMERS, MERCHANTS, FEATURES, EDGE_FEATURES = 12, 5, 4, 3


def graph(seed: int = 0, ties: int = 20) -> GraphTensors:
    random = torch.Generator().manual_seed(seed)
    nodes = CUSTOMERS + MERCHANTS
    is_side = torch.zeros(2, nodes)
    is_side[0, :CUSTOMERS] = 1
    is_side[1, CUSTOMERS - 1 :] = 1  # one account is on both sides
    pairs = torch.stack(
        [
            torch.randint(0, CUSTOMERS - 1, (ties,), generator=random),
            torch.randint(CUSTOMERS, nodes, (ties,), generator=random),
        ]
    )
    pairs = torch.unique(pairs, dim=1)
    edge = torch.randn(pairs.shape[1], EDGE_FEATURES, generator=random)
    features = {side: torch.randn(nodes, FEATURES, generator=random) for side in ("customer", "merchant")}
    return GraphTensors.whole(
        {side: values * is_side[k][:, None] for k, (side, values) in enumerate(features.items())},
        is_side,
        torch.cat([pairs, pairs.flip(0)], dim=1),
        torch.cat([edge, edge]),
    )


def encoder(seed: int = 0) -> Gcn2Encoder:
    torch.manual_seed(seed)
    made = make_encoder("gcn2", inputs={"customer": FEATURES, "merchant": FEATURES}, edge_inputs=EDGE_FEATURES)
    with torch.no_grad():
        for layer in (made.gate.net[2],):
            layer.weight.normal_()
    return made.eval()


def test_it_equals_the_dense_formula() -> None:
    given, made = graph(), encoder()
    with torch.no_grad():
        found = made(given).numpy()
        hidden = made.project(given).numpy().astype(float)
        gate = made.gate(given.edge_features).numpy().astype(float)
    adjacency, ties = np.eye(given.nodes), np.eye(given.nodes)
    for (source, target), weight in zip(given.edge_index.T.tolist(), gate, strict=True):
        adjacency[target, source] += weight
        ties[target, source] += 1
    degree = ties.sum(axis=1)
    normal = adjacency / np.sqrt(degree[:, None] * degree[None])

    def layer(h, conv, own):
        w, b = conv.lin.weight.detach().numpy(), conv.bias.detach().numpy()
        return normal @ (h @ w.T) + b + h @ own.weight.detach().numpy().T

    expected = layer(np.maximum(layer(hidden, made.near, made.near_self), 0), made.far, made.far_self)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_without_gates_its_convolution_is_that_of_torch_geometric() -> None:
    given, made = graph(), encoder()
    with torch.no_grad():
        made.gate.net[2].weight.zero_()
        made.near_self.weight.zero_()
        made.far_self.weight.zero_()
        near, far = GCNConv(128, WIDTH), GCNConv(WIDTH, WIDTH)
        near.load_state_dict(made.near.state_dict())
        far.load_state_dict(made.far.state_dict())
        expected = far(torch.relu(near(made.project(given), given.edge_index)), given.edge_index)
        np.testing.assert_allclose(made(given).numpy(), expected.numpy(), atol=1e-5)


def test_a_sampled_neighbourhood_that_leaves_nothing_out_gives_the_same_embeddings() -> None:
    given, made = graph(), encoder()
    sampler = NeighbourSampler(given.edge_index.numpy(), given.nodes)
    seeds = np.array([3, 14, 0])
    part = given.around(sampler.sample(seeds, (99, 99), np.random.default_rng(0)))
    with torch.no_grad():
        np.testing.assert_allclose(made(part)[:3].numpy(), made(given)[seeds].numpy(), atol=1e-5)


def test_permuting_the_accounts_permutes_the_embeddings() -> None:
    given, made = graph(), encoder()

    def embed(order):
        place = torch.from_numpy(np.argsort(order))
        index = torch.from_numpy(order)
        moved = GraphTensors.whole(
            {side: values[index] for side, values in given.features.items()},
            given.is_side[:, index],
            place[given.edge_index],
            given.edge_features,
        )
        with torch.no_grad():
            return made(moved).numpy()

    assert_permutation_equivariant(embed, given.nodes)


def test_an_account_without_ties_is_embedded_by_its_own_features_alone() -> None:
    made = encoder()
    alone = CUSTOMERS - 1
    first, second = graph(1), graph(1)
    second.features["merchant"][CUSTOMERS:] += 3.0
    with torch.no_grad():
        a, b = made(first), made(second)
    np.testing.assert_array_equal(a[alone].numpy(), b[alone].numpy())
    tied = int(first.edge_index[0, 0])
    assert not np.allclose(a[tied].numpy(), b[tied].numpy())


def test_an_account_it_never_saw_gets_the_embedding_of_its_twin() -> None:
    given, made = graph(), encoder()
    twin = int(given.edge_index[0, 0])
    merchants = given.edge_index[1][given.edge_index[0] == twin]
    rows = (given.edge_index[0] == twin).nonzero().flatten()
    new = given.nodes
    out = torch.stack([torch.full_like(merchants, new), merchants])
    grown = GraphTensors.whole(
        {side: torch.cat([values, values[twin : twin + 1]]) for side, values in given.features.items()},
        torch.cat([given.is_side, given.is_side[:, twin : twin + 1]], dim=1),
        torch.cat([given.edge_index, out, out.flip(0)], dim=1),
        torch.cat([given.edge_features, given.edge_features[rows], given.edge_features[rows]]),
    )
    with torch.no_grad():
        found = made(grown)
    assert found.shape == (new + 1, WIDTH)
    np.testing.assert_allclose(found[new].numpy(), found[twin].numpy(), atol=1e-5)


def test_without_a_graph_edges_do_not_matter() -> None:
    torch.manual_seed(0)
    made = make_encoder("none", inputs={"customer": FEATURES, "merchant": FEATURES}).eval()
    first = graph(2)
    other = GraphTensors.whole(first.features, first.is_side, first.edge_index[:, :4], first.edge_features[:4])
    with torch.no_grad():
        np.testing.assert_array_equal(made(first).numpy(), made(other).numpy())


def test_an_unknown_encoder_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(NotFound, match="gcn2"):
        make_encoder("gat9")
