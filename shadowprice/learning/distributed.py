"""Training through Ray Train: one worker on a laptop, N data-parallel workers on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch

from shadowprice.errors import MissingExtra
from shadowprice.learning.train import train
from shadowprice.learning.training_set import LEARNT_ACCOUNTS, TrainingSet
from shadowprice.local_ray import start_ray
from shadowprice.progress import ProgressBar
from shadowprice.responses.joint.batches import ALONE, Processes
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.training import FitResult, TrainingConfig

RESULT = "fit.json"
PROGRESS = "progress.json"


def train_with_ray(
    data_folder: Path, name: str, config: TrainingConfig, out: Path, *, workers: int = 1
) -> tuple[JointModel, FitResult]:
    """Train the recipe ``name``, a joint network, on Ray workers and return the model of the best epoch.

    Args:
        data_folder: a saved :class:`TrainingSet`, readable by every worker.
        name: the recipe.
        config: of the training loop.
        out: where the model and the checkpoints go, writable by the first worker; a checkpoint of this configuration
            is resumed.
        workers: data-parallel processes; each holds the whole graph, and the rows of every ``workers``-th account.

    Raises:
        MissingExtra: Ray is not installed.
    """
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
    try:
        import ray
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
    except ModuleNotFoundError as error:
        raise MissingExtra("training on Ray needs ray; install shadowprice[ray]") from error

    out.mkdir(parents=True, exist_ok=True)
    started = not ray.is_initialized()
    if started:
        start_ray(ray, include_dashboard=False)
    progress = out / PROGRESS
    progress.unlink(missing_ok=True)
    try:
        with follow(progress, config.epochs, f"train {name} on Ray"):
            TorchTrainer(
                _worker,
                train_loop_config={
                    "data": str(data_folder.resolve()),
                    "recipe": name,
                    "config": asdict(config),
                    "out": str(out.resolve()),
                },
                scaling_config=ScalingConfig(num_workers=workers, use_gpu=False),
                run_config=RunConfig(name="train", storage_path=str((out / "ray").resolve())),
            ).fit()
    finally:
        if started:
            ray.shutdown()
    return JointModel.load(out), FitResult(**json.loads((out / RESULT).read_text()))


def _worker(options: dict[str, Any]) -> None:
    from ray import train as ray_train
    from ray.train.torch import prepare_model

    context = ray_train.get_context()
    rank, processes = context.get_world_rank(), context.get_world_size()
    # Threads of all workers together should not exceed the cores they share.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // max(context.get_local_world_size(), 1)))

    def wrap(model: JointModel) -> Any:
        return prepare_model(model.network)

    def mean(value: float) -> float:
        total = torch.tensor([value])
        torch.distributed.all_reduce(total)
        return float(total / processes)

    out = Path(options["out"])

    def report(row: dict[str, float]) -> None:
        # Every report is a barrier over all workers; one in ten epochs is enough to see how it goes.
        if int(row["epoch"]) % 10 == 0:
            ray_train.report(row)
        if rank == 0:
            (out / PROGRESS).write_text(json.dumps(row))

    model, result = train(
        TrainingSet.load(Path(options["data"]), LEARNT_ACCOUNTS),
        options["recipe"],
        TrainingConfig(**options["config"]),
        checkpoint=out / "checkpoint",
        rank=rank,
        processes=Processes(processes, mean) if processes > 1 else ALONE,
        wrap=wrap if processes > 1 else None,
        report=report,
    )
    if rank == 0:
        model.save(out)
        (out / RESULT).write_text(json.dumps(asdict(result)))


@contextmanager
def follow(path: Path, epochs: int, label: str) -> Iterator[None]:
    """Show the progress for as long as a worker writes its last epoch to ``path``."""
    done = Event()

    def watch() -> None:
        with ProgressBar(label, epochs, "epoch") as shown:
            while not done.wait(0.5):
                with suppress(OSError, ValueError):
                    row = json.loads(path.read_text())
                    shown.reach(int(row["epoch"]) + 1, f"validation {row['validation_loss']:.4f}")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
