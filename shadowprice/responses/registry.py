"""Response models by name. A new one is a file here and a line in the mapping of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowprice.errors import InvalidInput, MissingExtra, NotFound
from shadowprice.responses.state import State, load_state

if TYPE_CHECKING:
    from shadowprice.responses.base import ResponseModel

OF_ROWS = {
    "hazard": "shadowprice.responses.joint.network_models:HazardModel",
    "cox": "shadowprice.responses.joint.network_models:CoxModel",
    "sbbm": "shadowprice.responses.joint.network_models:SbbmModel",
    "dssm_c": "shadowprice.responses.joint.network_models:DssmModel",
    "gradient_logit": "shadowprice.responses.joint.network_models:GradientLogitModel",
    "linear": "shadowprice.responses.joint.network_models:LinearModel",
    "dnn": "shadowprice.responses.joint.network_models:DnnModel",
    "gbdt": "shadowprice.responses.tabular.gbdt:GbdtModel",
    "dnn_h": "shadowprice.responses.joint.network_models:DnnHistoryModel",
    "dipn": "shadowprice.responses.tabular.dipn:DipnModel",
    "isotonic_lr": "shadowprice.responses.tabular.isotonic_lr:IsotonicLogisticRegression",
    "lattice": "shadowprice.responses.tabular.lattice:LatticeModel",
    "lr": "shadowprice.responses.tabular.lr:LogisticRegression",
    "wdl": "shadowprice.responses.tabular.wdl:WideAndDeepModel",
    "dnn_offer": "shadowprice.responses.tabular.wdl:OfferDnnModel",
    "dnn_level": "shadowprice.responses.tabular.dnn_level:DnnLevelModel",
    "s_learner": "shadowprice.responses.uplift.learners:SLearnerModel",
    "t_learner": "shadowprice.responses.uplift.learners:TLearnerModel",
    "cfrnet": "shadowprice.responses.uplift.cfrnet:CfrNetModel",
    "dragonnet": "shadowprice.responses.uplift.dragonnet:DragonNetModel",
    "direct_ranking": "shadowprice.responses.uplift.direct_ranking:DirectRankingModel",
    "end_to_end": "shadowprice.responses.goal.end_to_end:EndToEndModel",
    "dfcl_policy": "shadowprice.responses.goal.dfcl:DfclPolicyModel",
    "dfcl_entropy": "shadowprice.responses.goal.dfcl:DfclEntropyModel",
    "dfcl_difference": "shadowprice.responses.goal.dfcl:DfclDifferenceModel",
    "bi_dfcl": "shadowprice.responses.goal.bi_dfcl:BiDfclModel",
}
"""Models of labelled requests: what the training pipeline makes."""
OF_SESSIONS = {
    "din": "shadowprice.responses.vouchers.din:DinModel",
    "dmbgn": "shadowprice.responses.vouchers.dmbgn:DmbgnModel",
    "dmbgn_avg_pooling": "shadowprice.responses.vouchers.dmbgn:DmbgnAveragePoolingModel",
    "dmbgn_mean_history": "shadowprice.responses.vouchers.dmbgn:DmbgnMeanHistoryModel",
    "dmbgn_pretrained": "shadowprice.responses.vouchers.dmbgn:DmbgnPretrainedModel",
    "dmbgn_before_only": "shadowprice.responses.vouchers.dmbgn:DmbgnBeforeOnlyModel",
}
"""Models that also read voucher sessions: the vouchers pipeline gives them."""
OF_DELIVERIES = {
    "esdpm": "shadowprice.responses.funds.named:EsdpmModel",
    "esdpm_ncg": "shadowprice.responses.funds.named:EsdpmNcgModel",
    "esmm": "shadowprice.responses.funds.named:EsmmModel",
    "mmoe": "shadowprice.responses.funds.named:MmoeModel",
    "shared_bottom": "shadowprice.responses.funds.named:SharedBottomModel",
    "dnn_c": "shadowprice.responses.funds.named:DnnConversionModel",
    "dnn_v": "shadowprice.responses.funds.named:DnnValueModel",
    "mtl_ziln": "shadowprice.responses.funds.named:ZilnModel",
    "mtl_mse": "shadowprice.responses.funds.named:SquaredErrorModel",
}
"""Models of deliveries with amounts: the delivery pipeline gives them."""
MODELS = {**OF_ROWS, **OF_SESSIONS, **OF_DELIVERIES}
EXTRAS = {"lightgbm": "gbdt"}
"""Package → the extra that installs it, where that is not ``learn``."""


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
    model = model_class(name)(levels, seed=seed, **options)
    model.name, model.options = name, options
    return model


def model_class(name: str) -> type[ResponseModel]:
    """The class of the response model called ``name``; raises as :func:`make`."""
    if name not in MODELS:
        raise NotFound(f"response model {name!r} is unknown; choose one of {names()}")
    module, cls = MODELS[name].split(":")
    try:
        found: type[ResponseModel] = getattr(import_module(module), cls)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name), "learn")
        raise MissingExtra(f"response model {name!r} needs {error.name}; install shadowprice[{extra}]") from error
    return found


def wants(name: str) -> frozenset[str]:
    """The options that the constructor of a model, or of a class it passes its options on to, names."""
    found: set[str] = set()
    for cls in model_class(name).__mro__:
        if "__init__" not in vars(cls):
            continue
        parameters = signature(vars(cls)["__init__"]).parameters.values()
        found |= {each.name for each in parameters if each.kind is not Parameter.VAR_KEYWORD}
        if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
            break
    return frozenset(found - {"self", "levels", "seed"})


def load(folder: Path, **options: Any) -> ResponseModel:
    """Read a fitted model that ``model.save(folder)`` wrote.

    Args:
        folder: where it was saved.
        options: those that are not JSON types, such as ``graph``, as they were given to :func:`make`.

    Raises:
        NotFound: there is no model in ``folder``.
        InvalidInput: the file is not one of a fitted model.
    """
    from shadowprice.responses.base import FILE

    state = load_state(folder / FILE)
    own = state.meta
    try:
        model = make(own["name"], levels=own["levels"], seed=own["seed"], **{**own["options"], **options})
        fitted = State(state.arrays, own["fitted"])
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"not a file of a fitted model: {error!r}", field=str(folder / FILE)) from error
    model.restore(fitted)
    return model
