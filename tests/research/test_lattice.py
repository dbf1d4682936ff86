"""The lattice ensemble: its corners, and curves that cannot fall."""

import numpy as np
import pandas as pd
import torch

from research.models import make
from research.models.lattice import LatticeEnsemble
from shadowprice.evaluation import metrics
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.training import TrainingConfig
from shadowprice.testing import assert_monotone


def test_a_lattice_interpolates_between_its_corners_and_rises_for_any_parameters() -> None:
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"x_trait": random.normal(size=40), "c_kind": random.choice(["u", "v"], 40)})
    inputs = fit_tabular(rows)
    network = LatticeEnsemble(inputs, np.array([0, 30, 100]), 5, 2, np.random.default_rng(0)).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=3.0)
    numeric, category = torch.from_numpy(inputs.numeric(rows)).double(), torch.from_numpy(inputs.category(rows))
    with torch.no_grad():
        corner = network.corners(numeric, category)
        logits = network(numeric, category)
        ones = [network.at(numeric, category, torch.full((40,), j)) for j in range(3)]
    np.testing.assert_allclose(corner.sum(dim=2), 1.0)
    assert (corner >= 0).all()
    assert (logits.diff(dim=1) >= 0).all()
    np.testing.assert_allclose(torch.stack(ones, dim=1), logits, atol=1e-12)


def test_its_curves_follow_a_feature_and_rise() -> None:
    random = np.random.default_rng(1)
    level, x = random.integers(0, 3, 3000), random.normal(size=3000)
    y = (random.random(3000) < 1 / (1 + np.exp(1.0 - x - level))).astype(float)
    rows = pd.DataFrame({"account_id": [f"a{i}" for i in range(3000)], "x_trait": x, "level": level, "response": y})
    model = make("lattice", levels=[0, 30, 100], training=TrainingConfig(learning_rate=1e-2, epochs=12)).fit(rows)
    curves = model.curve(rows).response
    assert_monotone(curves)
    assert metrics.auc(y, curves[level, np.arange(3000)].astype(float)) > 0.72
