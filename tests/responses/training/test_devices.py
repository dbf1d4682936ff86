"""Precision and device of gradient steps. No GPU was at hand: on one nothing was run."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.datasets.vouchers import generate
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses import make
from shadowprice.responses.joint.batches import WholeGraph
from shadowprice.responses.tabular.minibatch import TabularRows
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.devices import placed

LEVELS = (10, 20, 40)


def requests(n: int = 600) -> pd.DataFrame:
    random = np.random.default_rng(0)
    level, x = random.integers(0, len(LEVELS), n), random.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(-(x[:, 0] + 0.5 * level - 0.5)))
    names = [f"a{k // 3:03}" for k in range(n)]
    return pd.DataFrame({"account_id": names, "level": level, "response": (random.random(n) < chance) * 1.0,
                         "x_0": x[:, 0], "x_1": x[:, 1], "c_0": random.choice(["u", "v"], n)})  # fmt: skip


def train(name: str, config: TrainingConfig) -> float:
    """Train a model and return the held-out loss of its last epoch."""
    losses: list[dict[str, float]] = []
    given: dict[str, Any] = {"training": config, "progress": losses.append}
    if name == "esdpm":
        drawn = draw(FundOptions(users=80, merchants=20, funds=4, deliveries=4), seed=3)
        make(name, levels=range(4), graph=[drawn.graph()], behaviours=drawn.behaviours(), **given).fit(drawn.frame())
    elif name == "dmbgn":
        vouchers = generate(seed=5, sessions=900)
        log = SessionLog.build(vouchers.tables)
        train = log.requests(vouchers.part() == "train")
        make(name, levels=log.levels, sessions=log, dropout=0.0, pretraining=1, **given).fit(train)
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
