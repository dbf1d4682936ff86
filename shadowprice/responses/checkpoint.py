"""Checkpoints of a training run: tensors in safetensors, the rest in JSON, replaced atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from shadowprice.files import write_whole

NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A run that was interrupted: weights, optimiser moments, the best epoch so far and the losses."""

    network: dict[str, Tensor]
    best_network: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    learning_rate: float
    best: float
    best_epoch: int
    history: list[dict[str, float]]

    def restore(self, optimiser: torch.optim.Optimizer) -> None:
        """Put the moments and the learning rate back."""
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in self.optimiser.items():
            number, name = key.split(".", 1)
            state.setdefault(int(number), {})[name] = tensor
        current = optimiser.state_dict()
        current["state"] = state
        current["param_groups"][0]["lr"] = self.learning_rate
        optimiser.load_state_dict(current)


def save_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    network: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    best: float,
    best_epoch: int,
    best_state: Mapping[str, Tensor],
    history: list[dict[str, float]],
) -> None:
    """Write the state of a run; a reader sees the old one or the new one, never a mixture."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"network.{key}": value.detach().clone() for key, value in network.state_dict().items()}
    tensors |= {f"best.{key}": value.detach().clone() for key, value in best_state.items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value.detach().clone() for name, value in state.items()}
    meta = {
        "signature": signature(config, network),
        "learning_rate": repr(optimiser.param_groups[0]["lr"]),
        "best": repr(best),
        "best_epoch": str(best_epoch),
        "history": json.dumps(history),
    }
    write_whole(folder / NAME, save(tensors, metadata=meta))


def load_checkpoint(folder: Path, config: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint in ``folder`` when there is one and it belongs to this configuration."""
    from safetensors import safe_open

    path = folder / NAME
    if not path.exists():
        return None
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
    groups: dict[str, dict[str, Tensor]] = {"network": {}, "best": {}, "optimiser": {}}
    for key, tensor in load_file(path).items():
        group, name = key.split(".", 1)
        groups[group][name] = tensor
    if meta["signature"] != _signature(config, groups["network"]):
        return None
    return Checkpoint(
        network=groups["network"],
        best_network=groups["best"],
        optimiser=groups["optimiser"],
        learning_rate=float(meta["learning_rate"]),
        best=float(meta["best"]),
        best_epoch=int(meta["best_epoch"]),
        history=json.loads(meta["history"]),
    )


def signature(config: Mapping[str, Any], network: torch.nn.Module) -> str:
    """Digest of the configuration and the shapes of the weights."""
    return _signature(config, network.state_dict())


def _signature(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> str:
    shapes = {key: list(value.shape) for key, value in state.items()}
    return hashlib.sha256(json.dumps([dict(config), shapes], sort_keys=True).encode()).hexdigest()
