"""Accounts of a large graph that Ray actors embed."""

from pathlib import Path

import pytest
import ray
import torch

from benchmarks.world.training_set import training_set
from shadowprice.encoders.registry import make_encoder
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.on_ray.parts import on_actors
from shadowprice.responses.joint import graph as module
from shadowprice.responses.joint.graph import ModelGraph
from shadowprice.responses.joint.inputs import fit_inputs


def test_actors_of_a_ray_of_their_own_embed_what_this_process_embeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = training_set("world", 0, customers=300, merchants=80, both=10, trials=2)[1]
    data.snapshots[0].save(tmp_path / "snapshot")
    snapshots = [GraphSnapshot.load(tmp_path / "snapshot")]
    scaling = fit_inputs(snapshots, {}, {}, interactions=True)
    inputs = {side: fitted.width for side, fitted in scaling.node.items()}
    encoder = make_encoder("gcn2", inputs=inputs, edge_inputs=scaling.edge.width).eval()
    graph = ModelGraph(snapshots, scaling)
    whole = graph.embed(encoder)
    for name, most in (("WHOLE_GRAPH_NODES", 0), ("BLOCK_NODES", 57), ("BLOCK_TIES", 200)):
        monkeypatch.setattr(module, name, most)
    alone = graph.embed(encoder)
    with on_actors(2, tmp_path):
        assert not ray.is_initialized()
        shared = graph.embed(encoder)
        assert ray.is_initialized()
    assert not ray.is_initialized()
    torch.testing.assert_close(shared, alone, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(shared, whole, rtol=1e-4, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]
