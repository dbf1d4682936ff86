"""Training through Ray Train: the same loop on N data-parallel workers, on one machine or on a cluster."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch
from safetensors.torch import load, save

from shadowprice import errors
from shadowprice.errors import InvalidInput, MissingExtra, ShadowpriceError
from shadowprice.files import write_whole
from shadowprice.on_ray.local import join_ray
from shadowprice.progress import ProgressBar
from shadowprice.responses.training import FitResult
from shadowprice.responses.training.processes import Processes, together
from shadowprice.responses.training.team import Task, Trained, trained_by

RAY = "ray"
"""Folder, beside the model, of the files that the workers share."""
RESULT, WEIGHTS, PROGRESS, REFUSED = "result.json", "weights.safetensors", "progress.json", "refused.json"
RANDOM = "state of the random generator"
"""Name of torch's random state among the weights."""
RESTARTS = 3
"""Times that workers are started again after one has died; they resume from the last checkpoint."""


@contextmanager
def ray_workers(out: Path, *, workers: int, label: str, epochs: int, device: str = "cpu") -> Iterator[None]:
    """Train the networks inside on Ray workers, each of which gets its own rows.

    This process prepares the rows, deals them, and goes on with the trained network. A worker that dies is replaced,
    and all resume from the last checkpoint.

    Args:
        out: folder that all workers reach.
        workers: how many; 0 trains in this process. ``RAY_ADDRESS`` names the cluster; without it Ray starts on this
            machine. Each has ``OMP_NUM_THREADS`` threads; without it, all have a thread for each core.
        label: of the progress.
        epochs: at most, for the progress.
        device: cuda reserves a GPU for each worker, whose gradients are summed by NCCL.

    Raises:
        MissingExtra: Ray is not installed.
        ShadowpriceError: an error that a loss raised on a worker. The training is not tried again.
    """
    if not workers:
        yield
        return
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtra("training on Ray needs ray; install shadowprice[ray]") from error
    started = join_ray(ray)
    try:
        with trained_by(RayTeam((out / RAY).resolve(), workers, label, epochs, device)):
            yield
    finally:
        if started:
            ray.shutdown()


class RayTeam:
    """Workers of Ray Train; each network is trained in one run of all workers.

    Args:
        shared: folder that all workers reach, for what they report.
        count: how many.
        label: of the progress.
        epochs: at most.
        device: of the workers.
    """

    def __init__(self, shared: Path, count: int, label: str, epochs: int, device: str) -> None:
        self.count, self._gpu = count, device == "cuda"
        self._shared, self._label, self._epochs = shared, label, epochs

    def train(self, task: Task, parts: Sequence[Any]) -> Trained:
        """Send each worker the task and its own part, and return the result of the first."""
        import ray
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchConfig, TorchTrainer

        shutil.rmtree(self._shared, ignore_errors=True)
        self._shared.mkdir(parents=True)
        sent = {"task": ray.put(task), "parts": [ray.put(part) for part in parts]}
        # Ray sets the variable in its workers: what the user wishes is known here.
        threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
        try:
            with follow(self._shared / PROGRESS, self._epochs, f"train {self._label} on Ray"):
                TorchTrainer(
                    _worker,
                    train_loop_config={**sent, "shared": str(self._shared), "threads": threads},
                    torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl") if self._gpu else None,
                    scaling_config=ScalingConfig(num_workers=self.count, use_gpu=self._gpu),
                    run_config=RunConfig(
                        name="train",
                        storage_path=str(self._shared),
                        failure_config=FailureConfig(max_failures=RESTARTS),
                    ),
                ).fit()
        except TrainingFailedError:
            if (self._shared / REFUSED).exists():
                raise read_refusal(self._shared / REFUSED) from None
            raise
        return _read(self._shared)


def _worker(options: dict[str, Any]) -> None:
    import ray

    context = ray.train.get_context()
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
    task, part = ray.get(options["task"]), ray.get(options["parts"][rank])
    with together(here):
        try:
            result = task.run(part)
        except ShadowpriceError as error:
            write_refusal(error, shared / REFUSED)
            raise
    if here.leads:
        _write(result, shared)


def _write(found: Trained, shared: Path) -> None:
    """Write the result of the first worker; :func:`_read` is the inverse."""
    tensors = {**found.weights, RANDOM: found.random}
    kept = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    write_whole(shared / WEIGHTS, save(kept))
    write_whole(shared / RESULT, json.dumps(asdict(found.result)))


def _read(shared: Path) -> Trained:
    weights = load((shared / WEIGHTS).read_bytes())
    random = weights.pop(RANDOM)
    return Trained(FitResult(**json.loads((shared / RESULT).read_text())), weights, random)


def write_refusal(error: ShadowpriceError, path: Path) -> None:
    """Write an error for the process that started the workers; :func:`read_refusal` is the inverse."""
    refusal: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidInput):
        refusal |= {"message": error.reason, "field": error.field, "rows": [int(row) for row in error.rows]}
    write_whole(path, json.dumps(refusal))


def read_refusal(path: Path) -> ShadowpriceError:
    """Return the error that a worker wrote."""
    refusal = json.loads(path.read_text())
    kind: type[ShadowpriceError] = getattr(errors, refusal.pop("kind"))
    return kind(refusal.pop("message"), **refusal)


@contextmanager
def follow(path: Path, epochs: int, label: str) -> Iterator[None]:
    """Show the progress for as long as a worker writes its last epoch to ``path``."""
    done = Event()

    def watch() -> None:
        with ProgressBar(label, epochs, "epoch") as shown:
            while not done.wait(0.5):
                with suppress(OSError, ValueError):
                    shown.epoch(json.loads(path.read_text()))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
