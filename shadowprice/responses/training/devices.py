"""The processor or GPU that a gradient step is computed on."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from shadowprice.errors import InvalidInput

Value = TypeVar("Value")


def placed(value: Value, device: str) -> Value:
    """Return rows or a graph with every tensor in them on ``device``.

    Args:
        value: tensor, or dataclasses, mappings and tuples of tensors; what a dataclass has computed of its fields is
            left behind.
        device: ``cpu``, where nothing is copied, or ``cuda``.

    >>> placed((torch.ones(2), None), "cpu")
    (tensor([1., 1.]), None)

    Raises:
        InvalidInput: the device is a GPU, and there is none.
    """
    if device == "cpu":
        return value
    check_device(device)
    return cast(Value, _placed(value, device))


def _placed(value: Any, device: str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _placed(part, device) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_placed(part, device) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _placed(getattr(value, field.name), device) for field in fields(value)})
    return value


def check_device(device: str) -> None:
    """Refuse a GPU where torch finds none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "torch finds no GPU here; give the container or the Ray worker one and a build of torch for it, or use cpu",
            field="device",
        )
