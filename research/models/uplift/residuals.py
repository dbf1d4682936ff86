"""Two-stage and end-to-end models of outcomes less a baseline of their row, which the levels do not change.

The baseline is cross-fitted (:func:`~shadowprice.responses.goal.baseline.row_baselines`), so that a small network
spends its capacity on differences between levels. Curves are those differences around the mean outcome: they rank the
levels of a row, and rows are not compared by them.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from shadowprice.responses.goal.baseline import row_baselines
from shadowprice.responses.goal.dfcl import DfclDifferenceModel, DfclEntropyModel, DfclPolicyModel
from shadowprice.responses.goal.end_to_end import EndToEndModel
from shadowprice.responses.uplift.members import SLearnerMeanModel
from shadowprice.responses.uplift.outcomes import OutcomeScale
from shadowprice.responses.uplift.two_outcome import LabeledRows, SLearnerModel, TwoOutcomeModel


class OnResiduals(TwoOutcomeModel):
    """Model that learns everything from residual outcomes, the prediction loss and the goal where it has one."""

    def prepare(self, frame: pd.DataFrame, rows: LabeledRows) -> LabeledRows:
        """Replace the outcomes by their residuals, around the mean outcome."""
        levels, (network, hidden) = self.levels.tolist(), (self.network_name, self.hidden)
        found = row_baselines(frame, levels, network=network, hidden=hidden, training=self.training, seed=self.seed)
        baseline = found[:, : len(self.kinds)]
        residual = rows.outcomes.numpy().astype(np.float64) - baseline + baseline.mean(axis=0)
        self.kinds = tuple(OutcomeScale.fit(column) for column in residual.T)
        return replace(rows, outcomes=torch.from_numpy(residual).to(rows.outcomes))


class ResidualSLearnerModel(OnResiduals, SLearnerModel):
    """Two-stage fit of residual outcomes."""


class ResidualSLearnerMeanModel(OnResiduals, SLearnerMeanModel):
    """Mean of several two-stage fits of residual outcomes."""


class RLearnerModel(OnResiduals, SLearnerModel):
    """R-learner for J levels (Nie and Wager 2021): y − m(x) ≈ τ_t(x) − mean_j τ_j(x), every level weighted alike."""

    def prediction_loss(self, raw: Tensor, rows: LabeledRows) -> Tensor:
        """Loss of the outputs less their mean over the levels."""
        return super().prediction_loss(raw - raw.mean(dim=2, keepdim=True), rows)


class ResidualEndToEndModel(OnResiduals, EndToEndModel):
    """S4 on top of the two-stage fit of residual outcomes."""


class ResidualDfclPolicyModel(OnResiduals, DfclPolicyModel):
    """DFCL-PL on top of that fit."""


class ResidualDfclEntropyModel(OnResiduals, DfclEntropyModel):
    """DFCL-MER on top of that fit."""


class ResidualDfclDifferenceModel(OnResiduals, DfclDifferenceModel):
    """DFCL-IFD on top of that fit."""
