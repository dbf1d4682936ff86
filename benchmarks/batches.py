"""Ways of batching the training on a graph, beside plain PyTorch Geometric: the time to a validation loss.

All ways train on the same accounts, ties and rows with the same response layers, loss and training loop. The time is
that of making the batches and of the gradient steps; held-out rows are measured on the whole graph beside the clock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.batchings import Clusters, History, LayerSampler, PygSage
from benchmarks.cells import Cells
from benchmarks.markdown import Results, markdown
from benchmarks.scale import measure, steps
from shadowprice.learning.recipes import recipe
from shadowprice.learning.train import prepare_joint
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.joint.batches import (
    STEP_ACCOUNTS,
    STEP_ROWS,
    Batches,
    Neighbourhoods,
    Step,
    TrainingData,
    WholeGraph,
)
from shadowprice.responses.joint.fit import fit_network, scheduled
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.training import TrainingConfig

ACCOUNTS, SECONDS = 100_000, 600.0
"""Accounts, and CPU seconds of training that each way gets."""
QUICK_ACCOUNTS, QUICK_SECONDS = 2_000, 3.0
NEAR = 1.002
"""A loss counts as reached where it is at most so many times the loss."""
PLAIN = "PyG SAGE, whole graph"


@dataclass(frozen=True)
class Way:
    """A way of batching.

    batches  makes the batches from the training data
    adapt    changes the network; None: as it is
    rate     learning rate where an epoch is one step; with more steps the training loop sets it
    """

    batches: Callable[[TrainingData], Batches]
    adapt: Callable[[JointModel], None] | None = None
    rate: float = TrainingConfig().learning_rate


def parts_of(data: TrainingData, rows: int = STEP_ROWS) -> int:
    """Steps of about so many rows that all rows make."""
    return max(1, round(sum(map(len, data.train.values())) / rows))


def around(fanouts: Sequence[int], data: TrainingData) -> Neighbourhoods:
    """Sampled neighbourhoods of the accounts of a step."""
    return Neighbourhoods(data, STEP_ACCOUNTS, 0, fanouts=fanouts)


def layered(data: TrainingData) -> Neighbourhoods:
    """Neighbourhoods of which each hop keeps a number of accounts."""
    found = around((STEP_ACCOUNTS * 4, STEP_ACCOUNTS * 4), data)
    found.sampler = LayerSampler(data.graph.adjacency)
    return found


WAYS: dict[str, Way] = {
    "whole graph, 65,536 rows": Way(lambda data: WholeGraph(data, parts_of(data), 0)),
    PLAIN: Way(lambda data: WholeGraph(data, 1, 0), PygSage.into),
    f"{PLAIN}, rate 0.005": Way(lambda data: WholeGraph(data, 1, 0), PygSage.into, rate=5e-3),
    f"{PLAIN}, 65,536 rows": Way(lambda data: WholeGraph(data, parts_of(data), 0), PygSage.into),
    "neighbourhoods (20, 10)": Way(partial(around, (20, 10))),
    "neighbourhoods (10, 5)": Way(partial(around, (10, 5))),
    "neighbourhoods (5, 3)": Way(partial(around, (5, 3))),
    "layer-wise samples": Way(layered),
    "clusters (Cluster-GCN)": Way(Clusters),
    "clusters with history (GAS)": Way(partial(Clusters, halo=True), History.into),
}


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Train every way for the same CPU time."""
    accounts, limit = (QUICK_ACCOUNTS, QUICK_SECONDS) if quick else (ACCOUNTS, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        made: list[tuple[JointModel, TrainingData]] = []

        def once(way: Way) -> dict[str, Any]:
            made[:] = made or [prepared(accounts, Path(folder))]
            return trial(way, *made[0], limit)

        found = {name: cells.of(f"{name} {accounts}", partial(once, way)) for name, way in WAYS.items()}
    for name, each in found.items():
        print(f"{name:28} {each['steps']:6} steps, {each['cpu_a_step']:.2f} CPU s a step, loss {each['best']:.4f}")
    return {"accounts": accounts, "limit": limit, "ways": found}


def prepared(accounts: int, folder: Path) -> tuple[JointModel, TrainingData]:
    """An untrained network and all rows of the generated world."""
    for name, fields in list(steps(accounts, folder).items())[:2]:
        if failed := measure(name, fields, folder)["failed"]:
            raise RuntimeError(f"{name}: {failed}")
    data = TrainingSet.load(folder / "training")
    spec = recipe("joint_gnn", data)
    assert isinstance(spec, JointSpec)
    return prepare_joint(data, spec, seed=0)


class Timed:
    """Batches whose making and whose steps are timed; held-out rows are all rows on the whole graph."""

    def __init__(self, batches: Batches, held_out: Step) -> None:
        self.count, self.held_out, self._batches = batches.count, held_out, batches
        self.seconds = self.cpu = 0.0
        self.done = 0

    def steps(self, epoch: int) -> Iterator[Step]:
        """The steps; the clock runs until the last one is done."""
        begun, used = time.perf_counter(), time.process_time()
        for step in self._batches.steps(epoch):
            yield step
            self.done += 1
        self.seconds += time.perf_counter() - begun
        self.cpu += time.process_time() - used


class Over(Exception):
    """The time is over."""


def trial(way: Way, model: JointModel, data: TrainingData, limit: float) -> dict[str, Any]:
    """Train by one way for ``limit`` CPU seconds; the loss of all validation rows by time."""
    own = deepcopy(model)
    torch.manual_seed(0)
    if way.adapt is not None:
        way.adapt(own)
    whole = data.graph.whole, {side: rows.tensors() for side, rows in data.validation.items()}
    begun, used = time.perf_counter(), time.process_time()
    made = way.batches(data)
    setting_up, setting_up_cpu = time.perf_counter() - begun, time.process_time() - used
    batches = Timed(made, whole)
    curve: list[tuple[float, float, float]] = []

    def keep(row: dict[str, float]) -> None:
        curve.append((setting_up + batches.seconds, setting_up_cpu + batches.cpu, row["validation_loss"]))
        if batches.cpu > limit:
            raise Over

    config = scheduled(TrainingConfig(learning_rate=way.rate, epochs=10**6, patience=10**6), batches.count)
    with suppress(Over):
        fit_network(own.network, batches, config, progress=keep)
    return {
        "steps": batches.done,
        "seconds_a_step": batches.seconds / batches.done,
        "cpu_a_step": batches.cpu / batches.done,
        "setting_up_cpu": setting_up_cpu,
        "best": float(np.min([loss for *_, loss in curve])),
        "curve": curve,
    }


def reached(curve: Sequence[Sequence[float]], loss: float) -> str:
    """Seconds and CPU seconds to a loss."""
    for seconds, cpu, found in curve:
        if found <= loss:
            return f"{seconds:.0f} ({cpu:.0f})"
    return "not reached"


def table(results: Results) -> str:
    """Time of a step, and the time to two losses: plain PyG's best, and the best of all ways."""
    ways = results["batches"]["ways"]
    plain = min(each["best"] for name, each in ways.items() if name.startswith(PLAIN))
    best = min(each["best"] for each in ways.values())
    lines = [
        [
            name,
            f"{each['seconds_a_step']:.2f} ({each['cpu_a_step']:.2f})",
            f"{each['best']:.4f}",
            reached(each["curve"], NEAR * plain),
            reached(each["curve"], NEAR * best),
        ]
        for name, each in ways.items()
    ]
    heads = ("a step passes over", "seconds a step (CPU)", "best loss", f"to {NEAR * plain:.4f}, s (CPU)")
    return markdown((*heads, f"to {NEAR * best:.4f}, s (CPU)"), lines)
