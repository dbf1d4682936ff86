"""Networks of two outcomes, value and cost of a request, as response models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.responses.funds.rows import held_out_rows
from shadowprice.responses.state import State
from shadowprice.responses.tabular.module_model import ModuleModel
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.devices import placed
from shadowprice.responses.training.loop import GradientDescent
from shadowprice.responses.training.processes import this_process
from shadowprice.responses.training.team import share_out
from shadowprice.responses.uplift.networks import NETWORKS, OutcomeNetwork
from shadowprice.responses.uplift.outcomes import OutcomeScale
from shadowprice.responses.weights import means_by_level


@dataclass(frozen=True, eq=False)
class LabeledRows:
    """n labeled rows as tensors.

    x           (n, D), standardized features
    level       int64 (n,)
    outcomes    (n, K): the response and, where the frame has it, the cost
    weight      (n,), in a prediction loss: the row's own and balancing weights times N / (J·N_level), so that every
                level counts alike
    importance  (n,), in the value of a policy: the row's own weight over its propensity
    drawn       bool (n,), whether the level was drawn at random
    baseline    (n, 2), subtracted from value and cost where a goal is measured; zeros by default
    """

    x: Tensor
    level: Tensor
    outcomes: Tensor
    weight: Tensor
    importance: Tensor
    drawn: Tensor
    baseline: Tensor

    def __len__(self) -> int:
        return len(self.level)

    def take(self, index: Tensor) -> LabeledRows:
        """The rows at ``index``, positions or a mask."""
        return LabeledRows(**{name: column[index] for name, column in vars(self).items()})

    def every(self, first: int, step: int) -> LabeledRows:
        """Every ``step``-th row from ``first`` on; all of them are not copied."""
        return self if step == 1 else self.take(torch.arange(first, len(self), step))


class TwoOutcomeModel(ModuleModel[OutcomeNetwork]):
    """A network of the response and, where the frame has a column ``cost``, of the cost at every level.

    The first stage of the two-stage method: trained on the assigned level alone, by log-loss where an
    outcome is 0 or 1 and by squared error otherwise, every level weighted alike (N / (J·N_level)).
    Without a column ``cost`` the cost of a level is the level.

    Options beside those of :class:`~shadowprice.responses.tabular.module_model.ModuleModel`:
        hidden: width of the layers.
    """

    TRAINING = TrainingConfig(learning_rate=5e-3, epochs=300, patience=30, weight_decay=1e-5)
    network_name: ClassVar[str]
    ordered: ClassVar[bool] = False
    binary: ClassVar[bool] = False
    sides: ClassVar[tuple[Side, ...]] = ("customer", "merchant")

    def __init__(self, levels: Sequence[int], seed: int = 0, *, hidden: int = 32, **options: Any) -> None:
        super().__init__(levels, seed, **options)
        require(hidden > 0, "hidden", "must be at least 1")
        self.hidden = hidden
        self.kinds: tuple[OutcomeScale, ...] = ()

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train; a fifth of the accounts is held out for early stopping."""
        self.check_frame(frame)
        self.inputs = fit_tabular(frame, ("x_", "h_", "c_"))
        names = ["response", "cost"] if "cost" in frame else ["response"]
        outcomes = frame[names].to_numpy(dtype=np.float64)
        self.kinds = tuple(OutcomeScale.fit(column) for column in outcomes.T)
        rows = self.prepare(frame, labeled_rows(frame, self.inputs, outcomes, self.levels.size))
        held_out = torch.from_numpy(held_out_rows(frame, self.seed))
        torch.manual_seed(self.seed)
        self.network = self.build(self.inputs)
        self.network.start(self._level_means(rows))
        # A single account is both learnt from and checked on.
        train = rows.take(~held_out)
        self.learn(self.network, train, rows.take(held_out) if held_out.any() else train)
        self.network.eval()
        return self

    def prepare(self, _frame: pd.DataFrame, rows: LabeledRows) -> LabeledRows:
        """Add to the rows of ``frame`` what a method needs beyond them; nothing by default."""
        return rows

    def build(self, inputs: TabularInputs) -> OutcomeNetwork:
        """The network, before training."""
        return NETWORKS[self.network_name](columns_of(inputs), self.levels.size, len(self.kinds), self.hidden)

    def learn(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Train the network in place: by its loss on the assigned levels."""
        self.learn_predictions(network, train, held_out)

    def learn_predictions(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Minimize :meth:`loss`; stop by the prediction loss on the held-out rows."""
        config, model = replace(self.training, seed=self.seed), self.sent()

        def fit(network: OutcomeNetwork, part: tuple[LabeledRows, LabeledRows], progress: Progress | None) -> FitResult:
            train, held_out = part

            def judged(rows: LabeledRows) -> float:
                return float(model.prediction_loss(network(rows.x), rows))

            return GradientDescent(
                network,
                shuffled(len(train), config),
                lambda index, epoch: model.loss(network, placed(train.take(index), config.device), epoch),
                lambda: judged(placed(held_out, config.device)),
                places=True,
            ).run(config, progress=progress)

        def deal(rank: int, count: int) -> tuple[LabeledRows, LabeledRows]:
            return train.every(rank, count), held_out.every(rank, count)

        share_out(fit, network, deal, min(len(train), len(held_out)), self.progress)

    def loss(self, network: OutcomeNetwork, rows: LabeledRows, _epoch: int) -> Tensor:
        """Return the loss of some rows that a gradient step minimizes."""
        return self.prediction_loss(network(rows.x), rows)

    def prediction_loss(self, raw: Tensor, rows: LabeledRows) -> Tensor:
        """Weighted mean over rows of the loss at the assigned level, summed over outcomes."""
        assigned = raw.gather(2, rows.level[:, None, None].expand(-1, raw.shape[1], 1)).squeeze(2)
        losses = (kind.loss(assigned[:, k], rows.outcomes[:, k]) for k, kind in enumerate(self.kinds))
        total = sum(((loss * rows.weight).sum() for loss in losses), raw.new_zeros(()))
        return total / this_process().share(rows.weight.sum())

    def expected(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Expected value and cost, each (n, J), in their own units."""
        value = self.kinds[0].expected(raw[:, 0])
        if len(self.kinds) == 1:
            return value, torch.from_numpy(self.levels).to(value).expand_as(value)
        return value, self.kinds[1].expected(raw[:, 1])

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Expected response (J, N) of the rows."""
        return Curves(self.levels, self._predict(frame)[0])

    def cost(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected cost (J, N) of the rows, in the units of the training frame's column."""
        return self._predict(frame)[1]

    def state(self) -> State:
        """Weights, standardization and the kinds of the outcomes."""
        inherited = super().state()
        return State(inherited.arrays, {**inherited.meta, "outcomes": [kind.to_dict() for kind in self.kinds]})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        self.kinds = tuple(OutcomeScale.from_dict(scale) for scale in state.meta["outcomes"])
        super().restore(state)

    @torch.no_grad()
    def _predict(self, frame: pd.DataFrame) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        inputs, network = self._fitted()
        value, cost = self.expected(network(features(frame, inputs)))
        return tuple(np.ascontiguousarray(curve.numpy().T, dtype=np.float32) for curve in (value, cost))  # type: ignore[return-value]

    def _level_means(self, rows: LabeledRows) -> Tensor:
        """(K, J): raw output of the mean outcome at each level, that of all rows where a level has none."""
        weight = rows.weight.numpy().astype(np.float64)
        means = []
        for k, kind in enumerate(self.kinds):
            column = rows.outcomes[:, k].numpy().astype(np.float64)
            at_level, _ = means_by_level(rows.level.numpy(), column, weight, self.levels.size)
            means.append(kind.link(np.where(np.isnan(at_level), np.average(column, weights=weight), at_level)))
        return torch.tensor(np.array(means), dtype=torch.float32)


class SLearnerModel(TwoOutcomeModel):
    """One network with the level among its inputs (Künzel et al., PNAS 2019)."""

    network_name = "s_learner"


class TLearnerModel(TwoOutcomeModel):
    """One network per level (Künzel et al., PNAS 2019)."""

    network_name = "t_learner"


LARGEST_WEIGHT = 50.0
"""Inverse propensities are cut here: a level that is hardly ever drawn must not outweigh all others."""


def labeled_rows(frame: pd.DataFrame, inputs: TabularInputs, outcomes: NDArray[np.float64], levels: int) -> LabeledRows:
    """A training frame as tensors.

    The propensity of a row is, in this order: the share of its level among the drawn rows over its
    ``balancing_weight`` (:func:`~shadowprice.responses.weights.inverse_propensity` has the share in the numerator);
    its ``propensity``; the share alone.
    """
    level = frame["level"].to_numpy(dtype=np.int64)
    own = frame["weight"].to_numpy(dtype=np.float64) if "weight" in frame else np.ones(len(frame))
    balancing = frame["balancing_weight"].to_numpy(dtype=np.float64) if "balancing_weight" in frame else None
    drawn = frame["exploration"].to_numpy(dtype=bool) if "exploration" in frame else np.ones(len(frame), dtype=bool)
    require(own.any(), "weight", "at least one must be positive")
    require(drawn.any(), "exploration", "no row's level was drawn at random")
    in_loss = own if balancing is None else own * balancing
    require(in_loss.any(), "balancing_weight", "at least one must be positive")
    share = (np.bincount(level[drawn], own[drawn], levels) / max(float(own[drawn].sum()), 1e-12))[level]
    if balancing is not None:
        stands_for = balancing / np.where(drawn & (share > 0), share, np.inf)
    else:
        propensity = frame["propensity"].to_numpy(dtype=np.float64) if "propensity" in frame else share
        stands_for = 1.0 / np.where(drawn & (propensity > 0), propensity, np.inf)

    def tensor(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))

    return LabeledRows(
        x=features(frame, inputs),
        level=torch.from_numpy(level),
        outcomes=tensor(outcomes),
        weight=tensor(in_loss * (in_loss.sum() / (levels * np.bincount(level, in_loss, levels)[level]))),
        importance=tensor(own * np.minimum(stands_for, LARGEST_WEIGHT)),
        drawn=torch.from_numpy(drawn),
        baseline=torch.zeros(len(frame), 2),
    )


def features(frame: pd.DataFrame, inputs: TabularInputs) -> Tensor:
    """(n, D ≥ 1): a frame without features still has a level to learn from."""
    dense = torch.from_numpy(inputs.dense(frame).astype(np.float32))
    return dense if dense.shape[1] else dense.new_zeros((len(frame), 1))


def columns_of(inputs: TabularInputs) -> int:
    """D of :func:`features`."""
    return max(inputs.indicators, 1)
