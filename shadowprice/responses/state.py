"""Fitted models on disk: one safetensors file with arrays and, in its header, JSON. Never pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole

KEY = "state"


@dataclass(frozen=True, eq=False)
class State:
    """Arrays by name, and what is not an array as plain JSON types."""

    arrays: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any]


def save_state(state: State, path: Path, *, key: str = KEY) -> None:
    """Write ``state`` to ``path``; a reader sees the old file or the new one. The same state gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.array(value, order="C") for name, value in sorted(state.arrays.items())}
    write_whole(path, save(arrays, metadata={key: json.dumps(dict(state.meta), sort_keys=True)}))


def load_state(path: Path, *, key: str = KEY, kind: str = "a fitted model") -> State:
    """Read what :func:`save_state` wrote, a file of a ``kind``.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is not such a file.
    """
    if not path.exists():
        raise NotFound(f"no {path.name} in {path.parent}; train and save a model first")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            meta: dict[str, Any] = json.loads(file.metadata()[key])
    except Exception as error:
        raise InvalidInput(f"not a file of {kind}: {error}", field=str(path)) from error
    return State(arrays, meta)
