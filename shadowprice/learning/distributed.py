"""Training through Ray Train: the same loop on N data-parallel workers, on one machine or on a cluster."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import torch

from shadowprice import errors
from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput, MissingExtra, ShadowpriceError
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.recipes import recipe
from shadowprice.learning.train import fit_joint, prepare_joint
from shadowprice.learning.training_set import TrainingSet, snapshot_folder
from shadowprice.local_ray import start_ray
from shadowprice.progress import ProgressBar
from shadowprice.responses.joint.batches import TrainingData, of_process
from shadowprice.responses.joint.graph import ModelGraph
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.joint.network import Rows
from shadowprice.responses.training import FitResult, TrainingConfig
from shadowprice.responses.training.processes import Processes, this_process, together

RAY = "ray"
"""Folder of what the workers share, beside the model."""
TRAINED = "trained"
"""Folder in it of the model that they trained."""
RESULT, PROGRESS, REFUSED = "result.json", "progress.json", "refused.json"
RESTARTS = 3
"""Times that workers are started again after one has died; they resume from the last checkpoint."""
SPLITS = ("train", "validation")


def train_on_workers(
    step: Callable[..., Any], arguments: Mapping[str, Any], out: Path, *, workers: int, label: str, epochs: int
) -> Any:
    """Call ``step`` on every Ray worker and return what the first one returns.

    Each network that ``step`` trains takes its gradient steps together with those of the other workers. A worker that
    dies is replaced, and all resume from the checkpoint that ``step`` keeps.

    Args:
        step: function of a module; it returns JSON types and writes files where ``this_process().leads`` alone.
        arguments: of ``step``, the same for all workers; paths must be absolute.
        out: folder that all workers reach.
        workers: how many; 0 calls ``step`` in this process. ``RAY_ADDRESS`` names the cluster; without it Ray starts on
            this machine. Each has ``OMP_NUM_THREADS`` threads; without it, all have a thread for each core.
        label: of the progress.
        epochs: at most, for the progress.

    Raises:
        MissingExtra: Ray is not installed.
        ShadowpriceError: the one that ``step`` raised on a worker. It is not tried again.
    """
    if not workers:
        return step(**arguments)
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
    try:
        import ray
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchTrainer
    except ModuleNotFoundError as error:
        raise MissingExtra("training on Ray needs ray; install shadowprice[ray]") from error

    shared = (out / RAY).resolve()
    shared.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, PROGRESS, REFUSED):
        (shared / name).unlink(missing_ok=True)
    started = not ray.is_initialized()
    if started:
        start_ray(ray, include_dashboard=False)
    try:
        with follow(shared / PROGRESS, epochs, f"train {label} on Ray"):
            TorchTrainer(
                _worker,
                train_loop_config={
                    "step": step,
                    "arguments": arguments,
                    "shared": str(shared),
                    # Ray sets the variable in its workers: what the user wishes is known here.
                    "threads": int(os.environ.get("OMP_NUM_THREADS") or 0),
                },
                scaling_config=ScalingConfig(num_workers=workers),
                run_config=RunConfig(
                    name="train", storage_path=str(shared), failure_config=FailureConfig(max_failures=RESTARTS)
                ),
            ).fit()
    except TrainingFailedError:
        if (shared / REFUSED).exists():
            raise read_refusal(shared / REFUSED) from None
        raise
    finally:
        if started:
            ray.shutdown()
    return json.loads((shared / RESULT).read_text())


def _worker(options: dict[str, Any]) -> None:
    from ray import train as ray_train

    context = ray_train.get_context()
    shared = Path(options["shared"])
    if (shared / REFUSED).exists():
        # Ray starts the workers again after every error.
        raise read_refusal(shared / REFUSED)
    # Threads of all workers together should not exceed the cores they share.
    share = max(1, (os.cpu_count() or 1) // max(context.get_local_world_size(), 1))
    torch.set_num_threads(options["threads"] or share)

    def report(row: dict[str, float]) -> None:
        write_whole(shared / PROGRESS, json.dumps(row))

    rank = context.get_world_rank()
    here = Processes(rank, context.get_world_size(), torch.distributed.all_reduce, None if rank else report)
    with together(here):
        try:
            found = options["step"](**options["arguments"])
        except ShadowpriceError as error:
            write_refusal(error, shared / REFUSED)
            raise
    if here.leads:
        write_whole(shared / RESULT, json.dumps(found))


def write_refusal(error: ShadowpriceError, path: Path) -> None:
    """Write an error for the process that started the workers; :func:`read_refusal` is the inverse."""
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidInput):
        told |= {"message": error.reason, "field": error.field, "rows": [int(row) for row in error.rows]}
    write_whole(path, json.dumps(told))


def read_refusal(path: Path) -> ShadowpriceError:
    """Return the error that a worker wrote."""
    told = json.loads(path.read_text())
    kind: type[ShadowpriceError] = getattr(errors, told.pop("kind"))
    return kind(told.pop("message"), **told)


def train_joint_on_ray(
    data: TrainingSet, folder: Path, name: str, config: TrainingConfig, out: Path, *, workers: int = 1
) -> tuple[JointModel, FitResult]:
    """Train the recipe ``name``, a joint network, on Ray workers and return the model of the best epoch.

    Args:
        data: the training set; its rows are dealt to the workers by account, a file for each.
        folder: where ``data`` was saved, readable by every worker; the workers map its snapshots.
        name: the recipe.
        config: of the training loop.
        out: where rows, checkpoints and the trained network go; a checkpoint of this configuration is resumed.
        workers: data-parallel processes.

    Raises:
        MissingExtra: Ray is not installed.
    """
    spec = recipe(name, data)
    assert isinstance(spec, JointSpec)
    model, rows = prepare_joint(data, spec, config.seed)
    shared = out / RAY
    shards = shared / "rows"
    shutil.rmtree(shards, ignore_errors=True)
    for rank in range(workers):
        save_rows(of_process(rows, rank, workers), shards / str(rank))
    model.save(shared)
    arguments = {
        "shared": shared.resolve(),
        "snapshots": [snapshot_folder(folder.resolve(), k) for k in range(len(data.seen_by(*SPLITS)))],
        "name": name,
        "config": config,
        "checkpoint": (out / "checkpoint").resolve(),
    }
    found = train_on_workers(fit_shard, arguments, out, workers=workers, label=name, epochs=config.epochs)
    shutil.rmtree(shards)
    return JointModel.load(shared / TRAINED), FitResult(**found)


def fit_shard(
    shared: Path, snapshots: Sequence[Path], name: str, config: TrainingConfig, checkpoint: Path
) -> dict[str, Any]:
    """Train the prepared network in ``shared`` on this process's rows; the first process writes the result.

    Snapshots are mapped: a worker reads the parts of features and ties that its rows need, and workers of one machine
    share what is in memory.
    """
    here = this_process()
    model = JointModel.load(shared)
    graph = ModelGraph([GraphSnapshot.load(each, check=False) for each in snapshots], model.scaling)
    data = TrainingData(graph, *load_rows(shared / "rows" / str(here.rank)))
    result = fit_joint(model, data, name, config, checkpoint=checkpoint)
    if here.leads:
        model.save(shared / TRAINED)
    return asdict(result)


def save_rows(data: TrainingData, folder: Path) -> None:
    """Write the rows of one worker; :func:`load_rows` is the inverse."""
    folder.mkdir(parents=True)
    for split, rows in zip(SPLITS, (data.train, data.validation), strict=True):
        for side, part in rows.items():
            np.savez(folder / f"{split}-{side}.npz", **vars(part))


def load_rows(folder: Path) -> tuple[dict[Side, Rows], ...]:
    """Read the rows of one worker by side, of each split."""
    found: tuple[dict[Side, Rows], ...] = ({}, {})
    for split, rows in zip(SPLITS, found, strict=True):
        for side in SIDES:
            path = folder / f"{split}-{side}.npz"
            if path.exists():
                with np.load(path, allow_pickle=False) as arrays:
                    rows[side] = Rows(**arrays)
    return found


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
