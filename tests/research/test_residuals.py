"""Models of residual outcomes: the loss of the R-learner, and decisions under a large main effect."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from research.data.misspecified import SimulatedTrial, World
from research.models import make
from research.models.uplift.residuals import OnResiduals, RLearnerModel
from research.tables.s4 import bi_level, end_to_end
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.uplift.two_outcome import LabeledRows, labeled_rows

BRIEF = TrainingConfig(learning_rate=2e-2, epochs=4)


def test_the_loss_of_the_r_learner_is_that_of_its_paper() -> None:
    """The squared error of y − m(x) against τ_t − Σ_j e_j·τ_j, in loops, and no other part of the outputs counts."""
    trial = World(3).trial(200)
    model = make("r_learner", levels=trial.levels, hidden=4, training=BRIEF).fit(trial.frame)
    assert isinstance(model, RLearnerModel)
    rows = model.prepare(trial.frame, _rows(model, trial))
    raw = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 2, 4))).float()
    expected, level = 0.0, trial.frame["level"].to_numpy()
    for k, kind in enumerate(model.kinds):
        for i in range(200):
            effect = kind.scale * float(raw[i, k, level[i]] - raw[i, k].mean())
            left = float(rows.outcomes[i, k]) - kind.location - effect
            expected += 0.5 * (left / kind.scale) ** 2 * float(rows.weight[i])
    found = model.prediction_loss(raw, rows)
    assert float(found) == pytest.approx(expected / float(rows.weight.sum()), rel=1e-4)
    moved = raw + torch.arange(200.0)[:, None, None]
    assert float(model.prediction_loss(moved, rows)) == pytest.approx(float(found), rel=1e-3)


def test_residuals_leave_the_main_effect_out_and_the_effect_of_the_levels_in() -> None:
    world = World(3)
    trial = world.trial(1500)
    model = make("residual_s_learner", levels=trial.levels, hidden=8, training=end_to_end.TRAINING).fit(trial.frame)
    assert isinstance(model, OnResiduals)
    residual = model.prepare(trial.frame, _rows(model, trial)).outcomes[:, 0].numpy()
    level, y = trial.frame["level"].to_numpy(), trial.frame["response"].to_numpy()
    effect = (trial.value - trial.value.mean(axis=0))[level, np.arange(1500)]
    assert residual.std() < 0.5 * y.std()
    assert np.corrcoef(residual, effect)[0, 1] > 2 * np.corrcoef(y, effect)[0, 1]


def test_two_stages_on_residuals_decide_better_than_end_to_end_without_them() -> None:
    """The gain of training end to end is the control variate's, on a development seed; the table has more."""
    learnt, judged = end_to_end.trials(end_to_end.WRONG, 0, quick=True)
    rows = (end_to_end.TWO_STAGE, end_to_end.END_TO_END, end_to_end.RESIDUALS)
    plain, joint, residuals = (end_to_end.fitted_value(row, 0, learnt, judged) for row in rows)
    assert plain < joint < residuals


def test_every_method_of_the_page_bi_level_decides_by_what_it_has_learnt() -> None:
    """A few rows and steps of each: the value of its decisions lies between the worst and the best that there are."""
    judged, brief = World(5, nuisance=0.0).trial(300, 2), {"hidden": 4, "training": BRIEF}
    best, _ = end_to_end.bounds(judged)
    for name, (model, _, options) in bi_level.METHODS.items():
        frame = pd.concat([World(5).trial(300, 1).frame, World(5).logged(300, 3).frame], ignore_index=True)
        few = {key: replace(given, epochs=2) for key, given in options.items()}
        value = end_to_end.decided(model, frame, judged, 0, **brief, **few)
        assert judged.value.min() < value <= best + 1e-9, name


def _rows(model: OnResiduals, trial: SimulatedTrial) -> LabeledRows:
    assert model.inputs is not None
    outcomes = trial.frame[["response", "cost"]].to_numpy(dtype=float)
    return labeled_rows(trial.frame, model.inputs, outcomes, 4)
