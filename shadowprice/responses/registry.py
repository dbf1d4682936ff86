"""Response models by name. A new one is a file here and a line in ``MODELS``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shadowprice.errors import MissingExtra, NotFound

if TYPE_CHECKING:
    from shadowprice.responses.base import ResponseModel

MODELS = {
    "hazard": "shadowprice.responses.network_models:HazardModel",
    "linear": "shadowprice.responses.network_models:LinearModel",
    "dnn": "shadowprice.responses.network_models:DnnModel",
    "dnn_h": "shadowprice.responses.network_models:DnnHistoryModel",
}


def names() -> list[str]:
    """Names of all registered response models."""
    return sorted(MODELS)


def make(name: str, *, levels: Sequence[int], seed: int = 0, **options: Any) -> ResponseModel:
    """Build the response model called ``name``.

    Args:
        name: one of :func:`names`.
        levels: incentive values in minor units, ascending.
        seed: of initialisation and training.
        options: those of the model, such as ``graph`` (snapshots) of the graph models.

    Raises:
        NotFound: no model of that name.
        MissingExtra: the model needs a package that is not installed.
    """
    if name not in MODELS:
        raise NotFound(f"response model {name!r} is unknown; choose one of {names()}")
    module, cls = MODELS[name].split(":")
    try:
        model: ResponseModel = getattr(import_module(module), cls)(levels, seed=seed, **options)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"response model {name!r} needs {error.name}; install shadowprice[learn]") from error
    return model
