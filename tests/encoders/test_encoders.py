import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv, MessagePassing

from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors
from shadowprice.encoders.registry import ENCODERS, make_encoder
from shadowprice.encoders.two_layers import HEADS
from shadowprice.errors import NotFound
from shadowprice.graphs.sampler import NeighborSampler
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


every = pytest.mark.parametrize("name", sorted(ENCODERS))
reading = pytest.mark.parametrize("name", sorted(set(ENCODERS) - {"none"}))
"""Encoders that read the graph."""


def encoder(name: str, seed: int = 0) -> GraphEncoder:
    torch.manual_seed(seed)
    made = make_encoder(name, inputs={"customer": FEATURES, "merchant": FEATURES}, edge_inputs=EDGE_FEATURES)
    if hasattr(made, "gate"):
        with torch.no_grad():
            made.gate.net[2].weight.normal_()
    return made.eval()


def dense(given: GraphTensors, weight: np.ndarray | None = None) -> np.ndarray:
    """(N, N): the weight of each tie, from column to row."""
    adjacency = np.zeros((given.nodes, given.nodes))
    for number, (source, target) in enumerate(given.edge_index.T.tolist()):
        adjacency[target, source] += 1.0 if weight is None else weight[number]
    return adjacency


def of(linear: torch.nn.Module) -> tuple[np.ndarray, np.ndarray | float]:
    bias = linear.bias
    return linear.weight.detach().numpy().astype(float), 0.0 if bias is None else bias.detach().numpy().astype(float)


def test_a_graph_convolution_is_the_dense_formula() -> None:
    given, made = graph(), encoder("gcn2")
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


@pytest.mark.parametrize("name", ["gat2", "gcn2", "graphconv", "sage"])
def test_what_neighbors_send_is_added_in_float32_where_products_are_bfloat16(name: str) -> None:
    given, made, sent = graph(), encoder(name), []
    for layer in made.modules():
        if isinstance(layer, MessagePassing):
            layer.register_message_forward_hook(lambda _, _inputs, found: sent.append(found.dtype))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        made(given)
    assert sent == [torch.float32] * 2


def test_without_gates_its_convolution_is_that_of_torch_geometric() -> None:
    given, made = graph(), encoder("gcn2")
    with torch.no_grad():
        made.gate.net[2].weight.zero_()
        made.near_self.weight.zero_()
        made.far_self.weight.zero_()
        near, far = GCNConv(128, WIDTH), GCNConv(WIDTH, WIDTH)
        near.load_state_dict(made.near.state_dict())
        far.load_state_dict(made.far.state_dict())
        expected = far(torch.relu(near(made.project(given), given.edge_index)), given.edge_index)
        np.testing.assert_allclose(made(given).numpy(), expected.numpy(), atol=1e-5)


def test_simplified_convolution_is_the_dense_formula() -> None:
    given, made = graph(), encoder("sgc2")
    with torch.no_grad():
        found = made(given).numpy()
        own = np.zeros((given.nodes, made.read.in_features // 3))
        for k, side in enumerate(("customer", "merchant")):
            own += made.project[side](given.features[side]).numpy().astype(float) * given.is_side[k].numpy()[:, None]
        gate = np.exp(np.clip(made.gate.net(given.edge_features).numpy()[:, 0].astype(float), -5, 5))
    own /= given.is_side.sum(dim=0).numpy()[:, None]
    ties = 1 + dense(given).sum(axis=1)
    normal = dense(given, gate) / np.sqrt(ties[:, None] * ties[None])
    weight, bias = of(made.read)
    expected = np.hstack([own, normal @ own, normal @ normal @ own]) @ weight.T + bias
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_sage_is_the_dense_formula() -> None:
    given, made = graph(), encoder("sage")
    with torch.no_grad():
        found, hidden = made(given).numpy(), made.project(given).numpy().astype(float)
    mean = dense(given) / np.maximum(dense(given).sum(axis=1, keepdims=True), 1)

    def layer(h, conv):
        (w, b), (u, _) = of(conv.lin_l), of(conv.lin_r)
        return mean @ h @ w.T + b + h @ u.T

    np.testing.assert_allclose(found, layer(np.maximum(layer(hidden, made.near), 0), made.far), atol=1e-4)


def test_graphconv_is_the_dense_formula() -> None:
    given, made = graph(), encoder("graphconv")
    with torch.no_grad():
        found, hidden = made(given).numpy(), made.project(given).numpy().astype(float)
        gated = dense(given, made.gate(given.edge_features).numpy().astype(float))

    def layer(h, conv):
        (w, b), (u, _) = of(conv.lin_rel), of(conv.lin_root)
        return gated @ h @ w.T + b + h @ u.T

    np.testing.assert_allclose(found, layer(np.maximum(layer(hidden, made.near), 0), made.far), atol=1e-4)


def test_attention_is_the_dense_formula() -> None:
    """Node by node and head by head; the edge of an account to itself has the mean features of those into it."""
    given, made = graph(), encoder("gat2")
    with torch.no_grad():
        found, hidden = made(given).numpy(), made.project(given).numpy().astype(float)
    ties = [(*pair, row) for pair, row in zip(given.edge_index.T.tolist(), given.edge_features.numpy(), strict=True)]

    def layer(h, conv, own):
        projected = (h @ of(conv.lin)[0].T).reshape(given.nodes, HEADS, -1)
        towards, away, along = (
            getattr(conv, name).detach().numpy().astype(float)[0] for name in ("att_dst", "att_src", "att_edge")
        )
        out = np.zeros_like(projected)
        for node in range(given.nodes):
            into = [(source, edge) for source, target, edge in ties if target == node]
            own_edge = np.mean([edge for _, edge in into], axis=0) if into else np.zeros(EDGE_FEATURES)
            into.append((node, own_edge))
            for head in range(HEADS):
                score = []
                for source, edge in into:
                    e = (of(conv.lin_edge)[0] @ edge).reshape(HEADS, -1)[head]
                    total = projected[node, head] @ towards[head] + projected[source, head] @ away[head]
                    total += e @ along[head]
                    score.append(total if total > 0 else 0.2 * total)
                share = np.exp(score) / np.exp(score).sum()
                out[node, head] = sum(w * projected[source, head] for w, (source, _) in zip(share, into, strict=True))
        bias = conv.bias.detach().numpy().astype(float)
        return out.reshape(given.nodes, -1) + bias + h @ of(own)[0].T

    hidden = np.maximum(layer(hidden, made.near, made.near_self), 0)
    np.testing.assert_allclose(found, layer(hidden, made.far, made.far_self), atol=1e-4)


def test_attention_also_works_without_edge_features() -> None:
    given = graph()
    bare = GraphTensors.whole(given.features, given.is_side, given.edge_index, given.edge_features[:, :0])
    made = make_encoder("gat2", inputs={"customer": FEATURES, "merchant": FEATURES}).eval()
    with torch.no_grad():
        assert torch.isfinite(made(bare)).all()


@every
def test_a_sampled_neighborhood_that_leaves_nothing_out_gives_the_same_embeddings(name: str) -> None:
    given, made = graph(), encoder(name)
    sampler = NeighborSampler(given.adjacency)
    seeds = np.array([3, 14, 0])
    part = given.around(sampler.sample(seeds, (99, 99), np.random.default_rng(0)))
    with torch.no_grad():
        np.testing.assert_allclose(made(part)[:3].numpy(), made(given)[seeds].numpy(), atol=1e-5)


@every
def test_permuting_the_accounts_permutes_the_embeddings(name: str) -> None:
    given, made = graph(), encoder(name)

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


@reading
def test_an_account_without_ties_is_embedded_by_its_own_features_alone(name: str) -> None:
    made = encoder(name)
    alone = CUSTOMERS - 1
    first, second = graph(1), graph(1)
    second.features["merchant"][CUSTOMERS:] += 3.0
    with torch.no_grad():
        a, b = made(first), made(second)
    np.testing.assert_array_equal(a[alone].numpy(), b[alone].numpy())
    tied = int(first.edge_index[0, 0])
    assert not np.allclose(a[tied].numpy(), b[tied].numpy())


@every
def test_an_account_it_never_saw_gets_the_embedding_of_its_twin(name: str) -> None:
    given, made = graph(), encoder(name)
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


@every
@pytest.mark.parametrize("side", ["customer", "merchant"])
def test_layers_of_a_node_alone_give_the_embedding_of_a_node_without_ties(name, side):
    made, place = encoder(name), ("customer", "merchant").index(side)
    values = torch.randn(6, FEATURES, generator=torch.Generator().manual_seed(3))
    is_side = torch.zeros(2, 6)
    is_side[place] = 1
    features = {each: values if each == side else torch.zeros(6, FEATURES) for each in ("customer", "merchant")}
    ties, edge_features = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, EDGE_FEATURES)
    with torch.no_grad():
        expected = made(GraphTensors.whole(features, is_side, ties, edge_features))
        found = values
        for number, (weight, bias) in enumerate(made.alone(side)):
            found = (found if number == 0 else found.relu()) @ weight.T + bias
    assert found.shape == (6, WIDTH)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
