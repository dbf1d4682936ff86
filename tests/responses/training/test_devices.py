"""Precision and device of gradient steps. Tests on a GPU are skipped where torch finds none, as in CI."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.world.training_set import training_set
from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.datasets.vouchers import generate
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog
from shadowprice.learning.recipes import recipe
from shadowprice.learning.train import prepare_joint
from shadowprice.responses import make
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.batches import WholeGraph
from shadowprice.responses.joint.fit import fit_rows
from shadowprice.responses.layers.base import make_layer
from shadowprice.responses.layers.heads import LAYERS
from shadowprice.responses.tabular.minibatch import TabularRows
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.devices import placed

LEVELS = (10, 20, 40)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def requests(n: int = 600) -> pd.DataFrame:
    random = np.random.default_rng(0)
    level, x = random.integers(0, len(LEVELS), n), random.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(-(x[:, 0] + 0.5 * level - 0.5)))
    names = [f"a{k // 3:03}" for k in range(n)]
    return pd.DataFrame({"account_id": names, "level": level, "response": (random.random(n) < chance) * 1.0,
                         "x_0": x[:, 0], "x_1": x[:, 1], "c_0": random.choice(["u", "v"], n)})  # fmt: skip


def train(name: str, config: TrainingConfig, **options: Any) -> float:
    """Train a model and return the held-out loss of its last epoch."""
    losses: list[dict[str, float]] = []
    given: dict[str, Any] = {"training": config, "progress": losses.append, **options}
    if name == "esdpm":
        drawn = draw(FundOptions(users=80, merchants=20, funds=4, deliveries=4), seed=3)
        inputs = Inputs(snapshots=[drawn.graph()], behaviours=drawn.behaviours())
        make(name, levels=range(4), inputs=inputs, **given).fit(drawn.frame())
    elif name == "dmbgn":
        vouchers = generate(seed=5, sessions=900)
        log = SessionLog.build(vouchers.tables)
        train = log.requests(vouchers.part() == "train")
        make(name, levels=log.levels, inputs=Inputs(sessions=log), dropout=0.0, pretraining=1, **given).fit(train)
    else:
        make(name, levels=LEVELS, **given).fit(requests())
    return losses[-1]["validation_loss"]


@pytest.mark.parametrize("name", ["hazard", "dipn", "wdl", "dmbgn", "esdpm"])
def test_steps_in_bfloat16_reach_the_loss_of_float32_within_two_per_cent(name: str) -> None:
    found = [
        train(name, TrainingConfig(learning_rate=3e-3, epochs=6, patience=8, precision=precision))
        for precision in ("float32", "bfloat16")
    ]
    assert found[1] == pytest.approx(found[0], rel=0.02)
    assert found[1] != found[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["hazard", "dipn", "s_learner"])
def test_a_gpu_that_is_not_there_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(InvalidInput, match="device: torch finds no GPU here"):
        train(name, TrainingConfig(epochs=1, device="cuda"))


@on_gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["hazard", "per_level", "dipn", "wdl", "dnn_level", "s_learner", "t_learner"])
def test_steps_on_a_gpu_reach_the_loss_of_the_processor_within_two_per_cent(name: str, precision: str) -> None:
    """Dropout draws other units there."""
    found = [
        train(name, TrainingConfig(learning_rate=3e-3, epochs=6, patience=8, precision=precision, device=device))
        for device in ("cpu", "cuda")
    ]
    assert found[1] == pytest.approx(found[0], rel=0.02)


@on_gpu
@pytest.mark.parametrize("encoder", ["sgc2", "gcn2", "gat2", "sage"])
def test_a_joint_network_on_a_gpu_is_the_same_in_every_run(encoder: str) -> None:
    data = training_set("world", 0, customers=600, merchants=150, both=10, trials=4)[1]
    spec = replace(recipe(f"joint_{encoder}", data), dropout=0.0)

    def fit(device: str) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
        model, rows = prepare_joint(data, spec, 0)
        history = fit_rows(model.network, rows, TrainingConfig(epochs=4, device=device)).history
        return history, model.network.state_dict()

    (first, weights), (again, others), (theirs, _) = map(fit, ("cuda", "cuda", "cpu"))
    assert first == again
    assert all(map(torch.equal, weights.values(), others.values()))
    assert first[-1]["validation_loss"] == pytest.approx(theirs[-1]["validation_loss"], rel=1e-4)


@on_gpu
@pytest.mark.parametrize("name", ["hazard", "wdl"])
def test_a_run_on_a_gpu_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    config = TrainingConfig(epochs=6, device="cuda", save_seconds=0)
    whole: list[dict[str, float]] = []
    make(name, levels=LEVELS, training=config, progress=whole.append).fit(requests())
    resumed: list[dict[str, float]] = []

    def stop(row: dict[str, float]) -> None:
        if row["epoch"] == 3:
            raise KeyboardInterrupt

    with checkpointing(tmp_path), pytest.raises(KeyboardInterrupt):
        make(name, levels=LEVELS, training=config, progress=stop).fit(requests())
    # A process that goes on with it has its own state of the generator.
    torch.cuda.manual_seed(1)
    with checkpointing(tmp_path):
        make(name, levels=LEVELS, training=config, progress=resumed.append).fit(requests())
    assert resumed == whole[3:]


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in LAYERS), ("hazard", {"fusion": 1e-3, "penalty": "group"})],
)
def test_a_response_layer_reads_nothing_but_its_weights_and_the_rows(name: str, options: dict[str, Any]) -> None:
    layer = make_layer(name, 4, np.array(LEVELS), **options).to("meta")
    level, response = torch.zeros(6, dtype=torch.int64, device="meta"), torch.zeros(6, device="meta")
    loss = layer.loss(torch.zeros(6, 4, device="meta"), level, response)
    layer.shrink(lambda parameter: torch.ones_like(parameter))
    assert (loss.device.type, loss.shape) == ("meta", (6,))


@pytest.mark.parametrize("name", ["dmbgn", "esdpm"])
def test_a_model_whose_loss_is_not_written_for_a_gpu_says_so(name: str) -> None:
    with pytest.raises(InvalidInput, match="device: must be cpu"):
        train(name, TrainingConfig(epochs=1, device="cuda"))


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InvalidInput, match="device"):
        TrainingConfig(device="tpu")


def devices(value: Any) -> set[str]:
    """Devices of all tensors in a value."""
    if isinstance(value, torch.Tensor):
        return {value.device.type}
    if isinstance(value, dict):
        return set().union(*map(devices, value.values()))
    if isinstance(value, tuple):
        return set().union(*map(devices, value))
    if is_dataclass(value):
        return set().union(*(devices(getattr(value, each.name)) for each in fields(value)))
    return set()


def test_rows_and_graph_of_a_step_are_placed_whole() -> None:
    """``meta`` stands for a device that is not the processor: torch has it everywhere, and computes nothing on it."""
    model = make("hazard", levels=LEVELS, training=TrainingConfig(epochs=1)).fit(requests())
    frame, snapshots = {"customer": requests()}, model._snapshots(requests())
    data = model.model.data(snapshots, frame, frame)
    batches = WholeGraph(data, 2, 0, "meta")
    assert devices(batches.held_out) == {"meta"}
    assert [devices(step) for step in batches.steps(0)] == [{"meta"}, {"meta"}]
    assert devices(WholeGraph(data, 1, 0).held_out) == {"cpu"}


@pytest.mark.parametrize("name", ["dipn", "wdl", "dnn_offer", "dnn_level"])
def test_a_network_of_rows_reads_nothing_but_its_weights_and_the_rows(name: str) -> None:
    model = make(name, levels=LEVELS, training=TrainingConfig(epochs=1)).fit(requests())
    rows: TabularRows = placed(model._rows(requests(), np.ones(600)), "meta")
    logits = model.network.float().to("meta").assigned(rows)
    assert (logits.device.type, logits.shape) == ("meta", (600,))
