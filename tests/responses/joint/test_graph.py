from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.world.training_set import training_set
from shadowprice.encoders.registry import ENCODERS, make_encoder
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.sampler import NeighborSampler
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.joint import graph as graphs
from shadowprice.responses.joint.graph import ModelGraph, NodeEmbeddings
from shadowprice.responses.joint.inputs import InputScaling, fit_inputs, request_rows


@pytest.fixture(scope="module")
def snapshots() -> list[GraphSnapshot]:
    first = training_set("world", 0, customers=300, merchants=80, both=10, trials=2)[1].snapshots[0]
    # A later one with other numbers, fewer ties and a feature less.
    later = replace(
        first.shuffled(1),
        at=first.at + timedelta(days=1),
        edge_index=first.edge_index[:, ::2],
        edge_features=first.edge_features[::2],
        names={side: names[1:] for side, names in first.names.items()},
        features={side: -values[:, 1:] for side, values in first.features.items()},
    )
    return [first, later]


@pytest.fixture(scope="module")
def scaling(snapshots: list[GraphSnapshot]) -> InputScaling:
    return fit_inputs(snapshots, {}, {}, interactions=True)


@pytest.mark.parametrize("count", [1, 2])
def test_a_part_of_the_graph_has_the_features_of_its_nodes_and_ties(
    snapshots: list[GraphSnapshot], scaling: InputScaling, count: int
) -> None:
    graph = ModelGraph(snapshots[:count], scaling)
    whole = graph.whole
    assert graph.nodes == whole.nodes == sum(each.nodes for each in snapshots[:count])
    seeds = np.unique(np.random.default_rng(0).integers(0, graph.nodes, 40))
    seen = NeighborSampler(graph.adjacency).sample(seeds, (None,), np.random.default_rng(0))
    part = graph.around(seen)
    for side, values in whole.features.items():
        assert torch.equal(part.features[side], values[seen.nodes])
    assert torch.equal(part.is_side, whole.is_side[:, seen.nodes])
    assert torch.equal(part.degree, whole.degree[seen.nodes])

    def ties(edge_index: np.ndarray, features: torch.Tensor) -> set[tuple[float, ...]]:
        return {(*ends, *map(float, row)) for ends, row in zip(edge_index.T.tolist(), features, strict=True)}

    into = np.isin(whole.edge_index[1].numpy(), seeds)
    found = ties(seen.nodes[seen.edge_index], part.edge_features)
    assert found == ties(whole.edge_index.numpy()[:, into], whole.edge_features[into])


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_embeddings_by_hop_over_blocks_are_those_of_the_whole_graph(
    snapshots: list[GraphSnapshot], scaling: InputScaling, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    inputs = {side: fitted.width for side, fitted in scaling.node.items()}
    encoder = make_encoder(name, inputs=inputs, edge_inputs=scaling.edge.width).eval()
    graph = ModelGraph(snapshots, scaling)
    wanted = graph.embed(encoder)
    monkeypatch.setattr(graphs, "WHOLE_GRAPH_NODES", 0)
    monkeypatch.setattr(graphs, "BLOCK_NODES", 57)
    monkeypatch.setattr(graphs, "BLOCK_TIES", 200)
    torch.testing.assert_close(graph.embed(encoder), wanted, rtol=1e-4, atol=1e-5)


def test_embeddings_are_computed_anew_where_weights_or_snapshots_change(
    snapshots: list[GraphSnapshot], scaling: InputScaling, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {side: fitted.width for side, fitted in scaling.node.items()}
    encoder = make_encoder("sgc2", inputs=inputs, edge_inputs=scaling.edge.width).eval()
    calls, embed = [], ModelGraph.embed
    monkeypatch.setattr(ModelGraph, "embed", lambda graph, given: calls.append(0) or embed(graph, given))
    kept = NodeEmbeddings()
    copied = deepcopy(kept)
    first = kept.of(snapshots, scaling, encoder)
    assert torch.equal(first, ModelGraph(snapshots, scaling).embed(encoder))
    calls.clear()
    assert kept.of(list(snapshots), scaling, encoder) is copied.of(snapshots, scaling, encoder) is first
    assert not calls
    assert kept.of(snapshots[:1], scaling, encoder).shape[0] == snapshots[0].nodes
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    changed = kept.of(snapshots, scaling, encoder)
    assert len(calls) == 2
    assert torch.equal(changed, embed(ModelGraph(snapshots, scaling), encoder))
    assert not torch.equal(changed, first)


def test_a_partner_whose_name_is_a_number_is_found_beside_requests_without_one() -> None:
    nodes = pd.DataFrame({"account_id": ["a", "b", "7"], "side": ["customer", "customer", "merchant"], "x_own": 1.0})
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshots = [build_snapshot(nodes, edges, datetime(2026, 1, 1, tzinfo=UTC))]
    frame = pd.DataFrame({"account_id": ["a", "b"], "partner_id": [7, None]})
    scaling = fit_inputs(snapshots, {"customer": frame}, {}, interactions=False)
    rows = request_rows(frame, snapshots, scaling, "customer")
    assert rows.partner.tolist() == [snapshots[0].find(["7"])[0], -1]
