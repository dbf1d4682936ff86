"""Response models by name. A new one is a file below this package and an entry in ``MODELS`` with what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowprice.errors import InvalidInput, MissingExtra, NotFound
from shadowprice.responses.state import State, load_state

if TYPE_CHECKING:
    from shadowprice.responses.base import ResponseModel
    from shadowprice.responses.inputs import Inputs


@dataclass(frozen=True)
class Entry:
    """Registered response model: module below this package, class, and the inputs it reads beside its rows.

    ``reads`` names fields of :class:`~shadowprice.responses.inputs.Inputs`; a model is given no others.
    """

    module: str
    cls: str
    reads: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """The input that its rows are about, sessions or segments; empty where it learns from labeled requests."""
        return next((name for name in ("sessions", "segments") if name in self.reads), "")


GRAPH = ("snapshots",)
SESSIONS = ("sessions",)
FUNDS = ("segments", "snapshots", "behaviours", "offers")
MODELS: Mapping[str, Entry] = {
    "hazard": Entry("joint.network_models", "HazardModel", GRAPH),
    "cox": Entry("joint.network_models", "CoxModel", GRAPH),
    "sbbm": Entry("joint.network_models", "SbbmModel", GRAPH),
    "dssm_c": Entry("joint.network_models", "DssmModel", GRAPH),
    "gradient_logit": Entry("joint.network_models", "GradientLogitModel", GRAPH),
    "flat": Entry("flat.model", "FlatModel", GRAPH),
    "linear": Entry("joint.network_models", "LinearModel", GRAPH),
    "per_level": Entry("joint.network_models", "PerLevelModel", GRAPH),
    "dnn": Entry("joint.network_models", "DnnModel", GRAPH),
    "gbdt": Entry("tabular.gbdt", "GbdtModel"),
    "dnn_h": Entry("joint.network_models", "DnnHistoryModel", GRAPH),
    "dipn": Entry("tabular.dipn", "DipnModel"),
    "isotonic_lr": Entry("tabular.lr", "IsotonicLogisticRegression"),
    "lr": Entry("tabular.lr", "LogisticRegression"),
    "wdl": Entry("tabular.wdl", "WideAndDeepModel"),
    "dnn_offer": Entry("tabular.wdl", "OfferDnnModel"),
    "dnn_level": Entry("tabular.wdl", "DnnLevelModel"),
    "s_learner": Entry("uplift.two_outcome", "SLearnerModel"),
    "s_learner_mean": Entry("uplift.members", "SLearnerMeanModel"),
    "t_learner": Entry("uplift.two_outcome", "TLearnerModel"),
    "end_to_end": Entry("goal.end_to_end", "EndToEndModel"),
    "dfcl_policy": Entry("goal.dfcl", "DfclPolicyModel"),
    "dfcl_entropy": Entry("goal.dfcl", "DfclEntropyModel"),
    "dfcl_difference": Entry("goal.dfcl", "DfclDifferenceModel"),
    "bi_dfcl": Entry("goal.bi_dfcl", "BiDfclModel"),
    "din": Entry("vouchers.din", "DinModel", SESSIONS),
    "dmbgn": Entry("vouchers.dmbgn", "DmbgnModel", SESSIONS),
    "dmbgn_pretrained": Entry("vouchers.dmbgn", "DmbgnPretrainedModel", SESSIONS),
    "esdpm": Entry("funds.named", "EsdpmModel", FUNDS),
    "esdpm_ncg": Entry("funds.named", "EsdpmNcgModel", ("segments", "behaviours", "offers")),
    "esmm": Entry("funds.named", "EsmmModel", FUNDS),
    "mmoe": Entry("funds.named", "MmoeModel", FUNDS),
    "shared_bottom": Entry("funds.named", "SharedBottomModel", FUNDS),
    "dnn_c": Entry("funds.named", "DnnConversionModel", FUNDS),
    "dnn_v": Entry("funds.named", "DnnValueModel", FUNDS),
    "mtl_ziln": Entry("funds.named", "ZilnModel", FUNDS),
    "mtl_mse": Entry("funds.named", "SquaredErrorModel", FUNDS),
}
EXTRAS = {"lightgbm": "gbdt"}
"""Package → the extra that installs it, where that is not ``learn``."""


def names(about: str | None = None) -> list[str]:
    """Names of all registered response models, or of those of data sets ``about`` one input, empty for none."""
    return sorted(name for name, entry in MODELS.items() if about in (None, entry.about))


def make(
    name: str, *, levels: Sequence[int], seed: int = 0, inputs: Inputs | None = None, **options: Any
) -> ResponseModel:
    """Build the response model called ``name``.

    Args:
        name: one of :func:`names`.
        levels: incentive values in minor units, ascending.
        seed: of initialization and training.
        inputs: what it may read beside its rows, such as the snapshots of a graph; of these it gets what it reads.
        options: those of the model.

    Raises:
        NotFound: no model of that name.
        MissingExtra: the model needs a package that is not installed.
    """
    model = model_class(name)(levels, seed=seed, **options)
    model.name, model.options = name, options
    if inputs is not None:
        model.given = inputs.only(MODELS[name].reads)
    return model


def model_class(name: str) -> type[ResponseModel]:
    """The class of the response model called ``name``; raises as :func:`make`."""
    if name not in MODELS:
        raise NotFound(f"response model {name!r} is unknown; choose one of {names()}")
    entry = MODELS[name]
    try:
        model: type[ResponseModel] = getattr(import_module(f"shadowprice.responses.{entry.module}"), entry.cls)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name), "learn")
        raise MissingExtra(f"response model {name!r} needs {error.name}; install shadowprice[{extra}]") from error
    return model


def wants(name: str) -> frozenset[str]:
    """The options that the constructor of a model, or of a class it passes its options on to, names."""
    options: set[str] = set()
    for cls in model_class(name).__mro__:
        if "__init__" not in vars(cls):
            continue
        parameters = signature(vars(cls)["__init__"]).parameters.values()
        options |= {parameter.name for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD}
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return frozenset(options - {"self", "levels", "seed"})


def load(folder: Path, inputs: Inputs | None = None, **options: Any) -> ResponseModel:
    """Read a fitted model that ``model.save(folder)`` wrote.

    Args:
        folder: where it was saved.
        inputs, options: as of :func:`make`; of the options those that are not JSON types.

    Raises:
        NotFound: there is no model in ``folder``.
        InvalidInput: the file is not one of a fitted model.
    """
    from shadowprice.responses.base import FILE

    state = load_state(folder / FILE)
    own = state.meta
    try:
        model = make(
            own["name"], levels=own["levels"], seed=own["seed"], inputs=inputs, **{**own["options"], **options}
        )
        fitted = State(state.arrays, own["fitted"])
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"not a file of a fitted model: {error!r}", field=str(folder / FILE)) from error
    model.restore(fitted)
    return model
