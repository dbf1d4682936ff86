"""The bridge of Bi-DFCL listens to whom it should, on simulated rows whose truth is known."""

import numpy as np
import torch

from research.data.misspecified import World
from shadowprice.responses import make
from shadowprice.responses.goal.bi_dfcl import BiDfclModel, _Rounds
from shadowprice.responses.goal.goals import BudgetGoal
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.uplift.two_outcome import labeled_rows

LEVELS = (0, 100, 200, 300)


def gate_after(truthful: bool) -> float:
    """Mean gate of the value (share of the target in the pseudo-labels) after rounds with a teacher that knows the
    truth, or its reverse; the target starts untrained."""
    world = World(0, nuisance=0.0)
    drawn = world.trial(1200, 0)
    model = make(
        "bi_dfcl", levels=LEVELS, hidden=8,
        training=TrainingConfig(learning_rate=1e-2, epochs=5), fine_tuning=TrainingConfig(learning_rate=5e-2, epochs=0),
    )  # fmt: skip
    assert isinstance(model, BiDfclModel)
    model.fit(drawn.frame)
    assert model.inputs is not None
    assert model.network is not None
    rows = labeled_rows(
        drawn.frame, model.inputs, drawn.frame[["response", "cost"]].to_numpy(dtype=np.float64), len(LEVELS)
    )
    torch.manual_seed(0)
    rounds = _Rounds(model, model.network, model.network, rows, rows, BudgetGoal([60.0, 120.0]), 0.5)
    value = drawn.value if truthful else drawn.value[:, :1] + drawn.value.mean(axis=1, keepdims=True) - drawn.value
    rounds.taught = torch.tensor(np.stack([value.T, drawn.cost.T], axis=1), dtype=torch.float32)
    for _ in range(25):
        rounds.run()
    with torch.no_grad():
        return float(rounds.bridge(rows.x)[:, 0].mean())


def test_it_listens_to_a_teacher_that_knows_and_not_to_one_that_misleads() -> None:
    assert gate_after(truthful=True) < gate_after(truthful=False) - 0.1
