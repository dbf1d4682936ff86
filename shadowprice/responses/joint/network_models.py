"""The response models of S0 on one side: hazard and linear heads over a graph or plain encoder."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.encoders.registry import GRAPH_ENCODER
from shadowprice.errors import InvalidInput
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.base import HELD_OUT, RESERVED, ResponseModel, held_out
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.layers.heads import LogitHead
from shadowprice.responses.state import State
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.weights import row_weights


class NetworkModel(ResponseModel):
    """An encoder and one response layer.

    Options:
        side: which side the rows are of.
        encoder: name of the encoder; by default ``sgc2`` with snapshots and ``none`` without, where the features of the
            frame are all there is.
        training: how to train; its seed is replaced by the model's.
        layer_options: those of the response layer, such as ``fusion``.
    """

    by_gradient = True
    layer: ClassVar[str]
    monotone: ClassVar[bool] = True
    interactions: ClassVar[bool] = False

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        side: Side = "customer",
        encoder: str | None = None,
        training: TrainingConfig | None = None,
        progress: Progress | None = None,
        **layer_options: Any,
    ) -> None:
        super().__init__(levels, seed)
        self.side = side
        self.encoder = encoder
        self.training = training or TrainingConfig()
        self.progress = progress
        self.layer_options = layer_options
        self.model: JointModel | None = None
        self.result: FitResult

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train; 15 % of the accounts are held out for early stopping."""
        self.check_frame(frame)
        weight = row_weights(frame, self.levels.size)
        frame = frame.drop(columns="balancing_weight", errors="ignore").assign(weight=weight)
        snapshots = self._snapshots(frame)
        known = {name for snapshot in snapshots for name in snapshot.names[self.side]}
        context = [c for c in frame.columns if c.startswith(("x_", "c_")) and c not in known and c not in RESERVED]
        spec = JointSpec(
            encoder=self.encoder or (GRAPH_ENCODER if self.given.snapshots else "none"),
            layers={self.side: self.layer},
            levels={self.side: tuple(self.levels.tolist())},
            layer_options={self.side: self.layer_options},
            context={self.side: context},
            partner={self.side: "partner_id" in frame and bool(frame["partner_id"].notna().any())},
            interactions=self.interactions,
        )
        validation = held_out(frame, HELD_OUT, self.seed)
        train = {self.side: frame[~validation].reset_index(drop=True)}
        self.model = JointModel.prepare(spec, snapshots, train, self.seed)
        self.result = self.model.fit(
            snapshots,
            train,
            {self.side: frame[validation].reset_index(drop=True)},
            replace(self.training, seed=self.seed),
            progress=self.progress,
        )
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the rows."""
        return self._fitted().curves(Inputs(snapshots=self._snapshots(frame)), {self.side: frame})[self.side]

    def state(self) -> State:
        """Weights, standardization and spec of the network."""
        return self._fitted().state()

    def restore(self, state: State) -> None:
        """Become the network that gave ``state``."""
        self.model = JointModel.of(state)

    def _fitted(self) -> JointModel:
        if self.model is None:
            raise InvalidInput("fit the model before asking for curves or saving it", field="model")
        return self.model

    def _snapshots(self, frame: pd.DataFrame) -> Sequence[GraphSnapshot]:
        if self.given.snapshots:
            return self.given.snapshots
        nodes = pd.DataFrame({"account_id": frame["account_id"].astype(str).unique(), "side": self.side})
        edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
        return [build_snapshot(nodes, edges, datetime(1970, 1, 1, tzinfo=UTC))]


class HazardModel(NetworkModel):
    """Piecewise hazard regression (S0).

    Options beside those of :class:`NetworkModel` and its layer:
        fusion: ζ of the fused penalty, or several (S0 searches by grid; {0, 1e-4, 1e-3, 1e-2} is a usual one): one
            network is trained for each and that of the least validation loss is kept, :attr:`fusion` says which.
    """

    layer = "hazard"

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, fusion: float | Sequence[float] = 0.0, **options: Any
    ) -> None:
        self.grid = tuple(float(value) for value in np.atleast_1d(np.asarray(fusion, dtype=np.float64)))
        require(self.grid, "fusion", "needs at least one weight of the penalty")
        super().__init__(levels, seed, fusion=self.grid[0], **options)

    @property
    def fusion(self) -> float:
        """ζ of the network that is kept."""
        return float(self.layer_options["fusion"])

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train one network for every ζ and keep the best on the accounts held out."""
        best: Self | None = None
        for weight in self.grid:
            self.layer_options = {**self.layer_options, "fusion": weight}
            super().fit(frame)
            if best is None or self.result.validation_loss < best.result.validation_loss:
                best = copy(self)
        vars(self).update(vars(best))
        return self

    def restore(self, state: State) -> None:
        """Become the network that gave ``state``, whichever ζ it was trained with."""
        super().restore(state)
        self.layer_options = dict(self._fitted().spec.layer_options[self.side])


class CoxModel(NetworkModel):
    """Proportional hazards (S0's Cox)."""

    layer = "cox"


class SbbmModel(NetworkModel):
    """The semi-black-box model (S0's SBBM): network intercept, sensitivity by segment or by account."""

    layer = "sbbm"


class DssmModel(NetworkModel):
    """Two towers with a cost term (S0's DSSM-c)."""

    layer = "dssm_c"
    monotone = False


class GradientLogitModel(NetworkModel):
    """The model of S0's sensitivity analysis (eq. 21)."""

    layer = "gradient_logit"

    def sensitivity(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """softplus(w_g·h + b_g) of the rows' accounts, (N,), per 100 minor units: what S0 sorts customers by."""
        model = self._fitted()
        embedding = model.embed(Inputs(snapshots=self._snapshots(frame)), {self.side: frame})
        return cast(LogitHead, model.heads(embedding)[self.side]).sensitivity(embedding[self.side])


class PerLevelModel(NetworkModel):
    """A logit of its own for each level, which may have any order."""

    layer = "per_level"
    monotone = False
    ordered = False


class LinearModel(NetworkModel):
    """Linear response with a non-negative slope, for merchants (S0)."""

    layer = "linear"
    sides = ("customer", "merchant")

    def __init__(self, levels: Sequence[int], seed: int = 0, *, side: Side = "merchant", **options: Any) -> None:
        super().__init__(levels, seed, side=side, **options)


class DnnModel(NetworkModel):
    """S0's DNN: own features only, with the hazard head for customers and the linear one for merchants."""

    sides = ("customer", "merchant")

    def __init__(self, levels: Sequence[int], seed: int = 0, *, side: Side = "customer", **options: Any) -> None:
        super().__init__(levels, seed, side=side, encoder="none", **options)
        self.layer = "hazard" if side == "customer" else "linear"  # type: ignore[misc]


class DnnHistoryModel(DnnModel):
    """S0's DNN-H: own features and historical interaction aggregates (h_* columns of the snapshots)."""

    interactions = True
    needs = ("snapshots",)
