"""Response models that only comparisons use, by name; those of the product are ``shadowprice.responses.names()``."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from shadowprice import responses
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.inputs import Inputs

MODELS: Mapping[str, str] = {
    "dragonnet": "uplift.dragonnet:DragonNetModel",
    "dipn_started": "dipn:StartedDipnModel",
    "dmbgn_avg_pooling": "dmbgn:DmbgnAveragePoolingModel",
    "dmbgn_before_only": "dmbgn:DmbgnBeforeOnlyModel",
    "lattice": "lattice:LatticeModel",
    "r_learner": "uplift.residuals:RLearnerModel",
    "residual_s_learner": "uplift.residuals:ResidualSLearnerModel",
    "residual_s_learner_mean": "uplift.residuals:ResidualSLearnerMeanModel",
    "residual_end_to_end": "uplift.residuals:ResidualEndToEndModel",
    "residual_dfcl_policy": "uplift.residuals:ResidualDfclPolicyModel",
    "residual_dfcl_entropy": "uplift.residuals:ResidualDfclEntropyModel",
    "residual_dfcl_difference": "uplift.residuals:ResidualDfclDifferenceModel",
}
"""Name → module below this package, and class."""


def make(
    name: str, *, levels: Sequence[int], seed: int = 0, inputs: Inputs | None = None, **options: Any
) -> ResponseModel:
    """Build the model called ``name``, of this package or of the product; arguments and errors are those of the latter.

    >>> make("dragonnet", levels=[0, 100]).ordered
    False
    """
    if name not in MODELS:
        return responses.make(name, levels=levels, seed=seed, inputs=inputs, **options)
    module, cls = MODELS[name].split(":")
    model: ResponseModel = getattr(import_module(f"research.models.{module}"), cls)(levels, seed=seed, **options)
    model.given = inputs or Inputs()
    return model
