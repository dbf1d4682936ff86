"""Response models by name. A new one is a file below this package and an entry in ``MODELS``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shadowprice.errors import InvalidInput, MissingExtra, NotFound
from shadowprice.responses.state import State, load_state

if TYPE_CHECKING:
    from shadowprice.responses.base import ResponseModel

Kind = Literal["rows", "sessions", "deliveries"]
ROWS: Kind = "rows"
"""Labeled requests: the campaign pipeline trains these models."""
SESSIONS: Kind = "sessions"
"""Labeled requests and a log of voucher sessions: the vouchers pipeline."""
DELIVERIES: Kind = "deliveries"
"""Deliveries of offers with amounts: the delivery pipeline."""


@dataclass(frozen=True)
class Entry:
    """Registered response model: module below this package, class, and kind of data set that it is fitted on."""

    module: str
    cls: str
    kind: Kind = ROWS


MODELS: Mapping[str, Entry] = {
    "hazard": Entry("joint.network_models", "HazardModel"),
    "cox": Entry("joint.network_models", "CoxModel"),
    "sbbm": Entry("joint.network_models", "SbbmModel"),
    "dssm_c": Entry("joint.network_models", "DssmModel"),
    "gradient_logit": Entry("joint.network_models", "GradientLogitModel"),
    "flat": Entry("flat.model", "FlatModel"),
    "linear": Entry("joint.network_models", "LinearModel"),
    "per_level": Entry("joint.network_models", "PerLevelModel"),
    "dnn": Entry("joint.network_models", "DnnModel"),
    "gbdt": Entry("tabular.gbdt", "GbdtModel"),
    "dnn_h": Entry("joint.network_models", "DnnHistoryModel"),
    "dipn": Entry("tabular.dipn", "DipnModel"),
    "isotonic_lr": Entry("tabular.lr", "IsotonicLogisticRegression"),
    "lr": Entry("tabular.lr", "LogisticRegression"),
    "wdl": Entry("tabular.wdl", "WideAndDeepModel"),
    "dnn_offer": Entry("tabular.wdl", "OfferDnnModel"),
    "dnn_level": Entry("tabular.wdl", "DnnLevelModel"),
    "s_learner": Entry("uplift.two_outcome", "SLearnerModel"),
    "t_learner": Entry("uplift.two_outcome", "TLearnerModel"),
    "end_to_end": Entry("goal.end_to_end", "EndToEndModel"),
    "dfcl_policy": Entry("goal.dfcl", "DfclPolicyModel"),
    "dfcl_entropy": Entry("goal.dfcl", "DfclEntropyModel"),
    "dfcl_difference": Entry("goal.dfcl", "DfclDifferenceModel"),
    "bi_dfcl": Entry("goal.bi_dfcl", "BiDfclModel"),
    "din": Entry("vouchers.din", "DinModel", SESSIONS),
    "dmbgn": Entry("vouchers.dmbgn", "DmbgnModel", SESSIONS),
    "dmbgn_pretrained": Entry("vouchers.dmbgn", "DmbgnPretrainedModel", SESSIONS),
    "esdpm": Entry("funds.named", "EsdpmModel", DELIVERIES),
    "esdpm_ncg": Entry("funds.named", "EsdpmNcgModel", DELIVERIES),
    "esmm": Entry("funds.named", "EsmmModel", DELIVERIES),
    "mmoe": Entry("funds.named", "MmoeModel", DELIVERIES),
    "shared_bottom": Entry("funds.named", "SharedBottomModel", DELIVERIES),
    "dnn_c": Entry("funds.named", "DnnConversionModel", DELIVERIES),
    "dnn_v": Entry("funds.named", "DnnValueModel", DELIVERIES),
    "mtl_ziln": Entry("funds.named", "ZilnModel", DELIVERIES),
    "mtl_mse": Entry("funds.named", "SquaredErrorModel", DELIVERIES),
}
EXTRAS = {"lightgbm": "gbdt"}
"""Package → the extra that installs it, where that is not ``learn``."""


def names(kind: Kind | None = None) -> list[str]:
    """Names of all registered response models, or of those of one kind of data set."""
    return sorted(name for name, entry in MODELS.items() if kind in (None, entry.kind))


def make(name: str, *, levels: Sequence[int], seed: int = 0, **options: Any) -> ResponseModel:
    """Build the response model called ``name``.

    Args:
        name: one of :func:`names`.
        levels: incentive values in minor units, ascending.
        seed: of initialization and training.
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
    entry = MODELS[name]
    try:
        found: type[ResponseModel] = getattr(import_module(f"shadowprice.responses.{entry.module}"), entry.cls)
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
