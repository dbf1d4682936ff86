"""Gradient estimators by name. A new one is a file here and a line in ``ESTIMATORS``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shadowprice.errors import NotFound

if TYPE_CHECKING:
    from shadowprice.responses.goal.estimator import GradientEstimator

ESTIMATORS = {
    "nes": "shadowprice.responses.goal.nes:EvolutionStrategies",
    "ifd": "shadowprice.responses.goal.ifd:FlipDifference",
    "softmax": "shadowprice.responses.goal.softmax:SoftmaxPolicy",
    "perturbed": "shadowprice.responses.goal.perturbed:PerturbedArgmax",
}


def estimator_names() -> list[str]:
    """Names of all registered gradient estimators."""
    return sorted(ESTIMATORS)


def make_estimator(name: str, **options: Any) -> GradientEstimator:
    """Build the gradient estimator called ``name``.

    Raises:
        NotFound: no estimator of that name.
    """
    if name not in ESTIMATORS:
        raise NotFound(f"gradient estimator {name!r} is unknown; choose one of {estimator_names()}")
    module, cls = ESTIMATORS[name].split(":")
    estimator: GradientEstimator = getattr(import_module(module), cls)(**options)
    return estimator
