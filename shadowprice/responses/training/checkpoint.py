"""Checkpoints of training runs: tensors in safetensors, the rest in JSON, replaced atomically.

>>> with checkpointing(Path("runs/a"), stamp="hazard of week 12"):   # doctest: +SKIP
...     model.fit(frame)

A second call of the same code resumes where the first was interrupted. Its result is that of an uninterrupted call,
bit for bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from shadowprice.files import write_whole
from shadowprice.responses.training.config import TrainingConfig
from shadowprice.responses.training.processes import this_process

Stateful = Any
"""Module, optimizer, schedule, random generator of numpy or torch, or tensor that training changes."""


@dataclass(frozen=True)
class _Folder:
    path: Path
    stamp: str
    runs: Iterator[int]


_FOLDER: ContextVar[_Folder | None] = ContextVar("checkpoints", default=None)


@contextmanager
def checkpointing(folder: Path | None, *, stamp: str = "", first: int = 0) -> Iterator[None]:
    """Save every training run inside to ``folder``, and resume those found there.

    A fit may consist of several runs, such as the phases of a model: they are numbered in the order in which they
    start, and one that has ended is not repeated.

    Args:
        folder: of this fit alone; None saves nothing.
        stamp: names model and data. A checkpoint of another stamp, configuration or shape of weights is not resumed.
        first: number of the first run.

    Where several processes train one network, the first one writes.
    """
    token = _FOLDER.set(None if folder is None else _Folder(folder, stamp, count(first)))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def pass_on() -> dict[str, Any]:
    """Arguments of :func:`checkpointing` for the next run, which another process does in place of this one."""
    folder = _FOLDER.get()
    if folder is None:
        return {"folder": None}
    return {"folder": folder.path.resolve(), "stamp": folder.stamp, "first": next(folder.runs)}


@dataclass
class Progressed:
    """Position of a training run: the losses so far, the best epoch and its weights."""

    history: list[dict[str, float]]
    best: float
    best_epoch: int
    best_state: Mapping[str, Tensor]
    ended: bool = False


class Checkpoint:
    """File of one training run."""

    def __init__(self, path: Path, signature: str) -> None:
        self.path, self.signature = path, signature

    @classmethod
    def of(cls, module: nn.Module, config: TrainingConfig) -> Checkpoint | None:
        """Return the file of the next run inside :func:`checkpointing`, None outside."""
        folder = _FOLDER.get()
        if folder is None:
            return None
        shapes = {key: list(value.shape) for key, value in module.state_dict().items()}
        record = json.dumps([asdict(config), folder.stamp, shapes], sort_keys=True)
        path = folder.path / f"{next(folder.runs)}.safetensors"
        return cls(path, hashlib.sha256(record.encode()).hexdigest())

    def save(self, run: Progressed, carried: Sequence[Stateful]) -> None:
        """Write the state of a run; a reader sees the old one or the new one, never a mixture."""
        if not this_process().leads:
            return
        tensors: dict[str, Tensor] = {}
        record = _pack([vars(run), [_state(part) for part in carried], torch.get_rng_state()], tensors)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, save(tensors, metadata={"signature": self.signature, "run": json.dumps(record)}))

    def load(self, carried: Sequence[Stateful]) -> Progressed | None:
        """Put the state of an interrupted run back into ``carried``; None where there is none of this signature."""
        if not self.path.exists():
            return None
        with safe_open(self.path, framework="pt") as file:
            record = file.metadata() or {}
            if record.get("signature") != self.signature:
                return None
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        run, states, random = _unpack(json.loads(record["run"]), tensors)
        for part, state in zip(carried, states, strict=True):
            _restore(part, state)
        torch.set_rng_state(random)
        return Progressed(**run)


def _state(each: Stateful) -> Any:
    if isinstance(each, np.random.Generator):
        return each.bit_generator.state
    if isinstance(each, torch.Generator):
        return each.get_state()
    return each if isinstance(each, Tensor) else each.state_dict()


@torch.no_grad()
def _restore(each: Stateful, state: Any) -> None:
    if isinstance(each, np.random.Generator):
        each.bit_generator.state = state
    elif isinstance(each, torch.Generator):
        each.set_state(state)
    elif isinstance(each, Tensor):
        each.copy_(state)
    else:
        each.load_state_dict(state)


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return JSON types for ``value`` and move its tensors to ``tensors``."""
    if isinstance(value, Tensor):
        key = str(len(tensors))
        tensors[key] = value.detach().clone(memory_format=torch.contiguous_format)
        return {"tensor": key}
    if isinstance(value, Mapping):
        return {"pairs": [[key, _pack(item, tensors)] for key, item in value.items()]}
    return [_pack(item, tensors) for item in value] if isinstance(value, list | tuple) else value


def _unpack(record: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(record, list):
        return [_unpack(item, tensors) for item in record]
    if not isinstance(record, dict):
        return record
    if "tensor" in record:
        return tensors[record["tensor"]]
    return {key: _unpack(item, tensors) for key, item in record["pairs"]}
