from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.world.training_set import training_set
from shadowprice.errors import InvalidInput
from shadowprice.learning.recipes import recipe
from shadowprice.responses.joint import batches
from shadowprice.responses.joint import graph as graphs
from shadowprice.responses.joint.batches import Neighborhoods, Step, TrainingData, WholeGraph, make_batches, of_process
from shadowprice.responses.joint.fit import fit_network, scheduled
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.processes import Processes, together

Prepared = tuple[JointModel, TrainingData]


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    data = training_set("world", 0, customers=600, merchants=150, both=10, trials=4)[1]
    train = data.part("train")
    model = JointModel.prepare(recipe("joint_gnn", data), data.seen_by("train").snapshots, train, 0)
    model.network.eval()
    return model, model.data(data.seen_by("train", "validation").snapshots, train, data.part("validation"))


def gradient(network: nn.Module, loss: Tensor) -> Tensor:
    network.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])


@pytest.mark.parametrize("count", [2, 3])
def test_the_mean_gradient_of_several_processes_is_that_of_one_with_all_rows(prepared: Prepared, count: int) -> None:
    """Processes have unlike numbers of rows, because they share out accounts."""
    model, data = prepared
    (whole,) = make_batches(data).steps(0)
    expected = gradient(model.network, model.network(*whole))
    shares: list[Step] = [next(iter(make_batches(of_process(data, rank, count)).steps(0))) for rank in range(count)]
    assert count == 2 or len({len(rows["customer"].node) for _, rows in shares}) > 1
    weights = {side: sum(rows[side].weight.sum() for _, rows in shares) / count for side in data.train}
    parts = [gradient(model.network, model.network(graph, rows, weights)) for graph, rows in shares]
    torch.testing.assert_close(torch.stack(parts).mean(dim=0), expected, rtol=1e-4, atol=1e-6)


def test_the_parts_of_a_large_epoch_are_all_rows_once(prepared: Prepared) -> None:
    _, data = prepared
    made = WholeGraph(data, 5, seed=3)
    assert made.count == 5
    steps = list(made.steps(0))
    for side, rows in data.train.items():
        seen = torch.cat([step[side].node for _, step in steps])
        assert sorted(seen.tolist()) == sorted(rows.node.tolist())
    again = [step["customer"].node.tolist() for _, step in made.steps(0)]
    assert again == [step["customer"].node.tolist() for _, step in steps]
    assert again != [step["customer"].node.tolist() for _, step in made.steps(1)]


def test_a_step_on_neighborhoods_has_all_rows_of_its_accounts(prepared: Prepared) -> None:
    _, data = prepared
    by_response = {
        side: {float(y): node for y, node in zip(np.random.default_rng(0).random(len(rows)), rows.node, strict=True)}
        for side, rows in data.train.items()
    }
    marked = {
        side: replace(rows, response=np.array(list(by_response[side]), dtype=np.float64))
        for side, rows in data.train.items()
    }
    graph, rows = next(iter(Neighborhoods(replace(data, train=marked), 4, seed=0).steps(0)))
    assert graph.nodes < data.graph.nodes
    drawn = 0
    for side, part in rows.items():
        nodes = [by_response[side][y] for y in part.response.tolist()]
        assert len(nodes) == np.isin(data.train[side].node, nodes).sum()
        drawn += len(set(nodes))
    assert 4 <= drawn <= 6


def test_embeddings_in_a_neighborhood_are_those_of_the_whole_graph(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = prepared
    monkeypatch.setattr(batches, "HELD_OUT_FANOUTS", (1000, 1000))
    graph, rows = Neighborhoods(data, 10_000, seed=0).held_out
    with torch.no_grad():
        found = float(model.network(graph, rows))
        wanted = float(
            model.network(data.graph.whole, {side: part.tensors() for side, part in data.validation.items()})
        )
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_large_graph_learns_from_neighborhoods_what_a_small_one_learns_whole(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = prepared
    start = {name: value.clone() for name, value in model.network.state_dict().items()}
    losses = []
    for nodes in (10**9, 0):
        monkeypatch.setattr(graphs, "WHOLE_GRAPH_NODES", nodes)
        monkeypatch.setattr(batches, "STEP_ROWS", 500)
        monkeypatch.setattr(batches, "STEP_ACCOUNTS", 150)
        made = make_batches(data, 0)
        assert type(made) is (WholeGraph if nodes else Neighborhoods)
        model.network.load_state_dict(start)
        before = float(model.network(*made.held_out).detach())
        config = scheduled(TrainingConfig(epochs=60), made.count)
        losses.append(fit_network(model.network, made, config).validation_loss)
        assert losses[-1] < before - 0.02
    assert losses[0] == pytest.approx(losses[1], rel=0.03)
    model.network.load_state_dict(start)


def test_processes_take_equally_many_steps(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = prepared
    monkeypatch.setattr(batches, "STEP_ROWS", 200)
    rows = sum(len(part) for part in data.train.values())
    shares = [of_process(data, rank, 2) for rank in range(2)]
    made = []
    for rank, share in enumerate(shares):
        with together(Processes(rank, 2, lambda total: total.fill_(rows))):
            made.append(make_batches(share, 0))
    assert made[0].count == made[1].count == min(round(rows / 200), batches.EPOCH_STEPS)


def test_a_network_learns_in_bfloat16_what_it_learns_in_float32_and_keeps_its_weights_in_float32(
    prepared: Prepared,
) -> None:
    model, data = prepared
    start = {name: value.clone() for name, value in model.network.state_dict().items()}
    losses = []
    for precision in ("float32", "bfloat16"):
        model.network.load_state_dict(start)
        config = TrainingConfig(epochs=15, precision=precision)
        losses.append(fit_network(model.network, WholeGraph(data, 1, seed=0), config).validation_loss)
        assert {each.dtype for each in model.network.parameters()} == {torch.float32}
    model.network.load_state_dict(start)
    before = float(model.network(*WholeGraph(data, 1, seed=0).held_out).detach())
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert losses[1] < before - 0.01
    with pytest.raises(InvalidInput, match="precision"):
        TrainingConfig(precision="float16")
