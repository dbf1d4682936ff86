"""S1's network against what must hold for any parameters, and against pooled adjacent violators."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.tabular.dipn import DipnModel, DipnNetwork
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.training import TrainingConfig

LEVELS = [0, 10, 20, 40, 80]
QUICK = TrainingConfig(learning_rate=1e-2, epochs=15, patience=15)


def frame(rows: int = 2000, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    kind, x = random.integers(0, 3, rows), random.normal(size=rows)
    level = random.integers(0, len(LEVELS), rows)
    logit = (
        np.array([-2.0, -1.0, 0.5])[kind] + 0.5 * x + np.sqrt(np.array(LEVELS)[level]) * np.array([0.3, 0.1, 0.2])[kind]
    )
    return pd.DataFrame(
        {
            "account_id": [f"a{i}" for i in range(rows)],
            "c_kind": np.array(["u", "v", "w"])[kind],
            "x_trait": x,
            "level": level,
            "response": (random.random(rows) < 1 / (1 + np.exp(-logit))).astype(float),
        }
    )


OPTIONS = [
    {},
    {"hidden": 0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_no_pair_is_reversed_for_any_parameters(options: dict, scale: float) -> None:
    rows = frame(200)
    model = make("dipn", levels=LEVELS, **options)
    model.inputs = fit_tabular(rows)
    torch.manual_seed(int(10 * scale))
    network = model.build(model.inputs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=scale)
    model.network = network.double()
    assert metrics.rpr(model.curve(rows).response) == 0


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_bias_net_is_frozen_bit_for_bit_and_gives_the_response_at_the_lowest_level(options: dict) -> None:
    rows = frame()
    seen = {}

    class Watched(DipnModel):
        def _learn_bias(self, network, train, validation):
            found = super()._learn_bias(network, train, validation)
            seen["bias"] = {key: value.clone() for key, value in network.bias.state_dict().items()}
            seen["uplift"] = {key: value.clone() for key, value in network.uplift.state_dict().items()}
            return found

    model = Watched(LEVELS, training=QUICK, **options).fit(rows)
    after = model.network.float()
    for key, value in after.bias.state_dict().items():
        assert torch.equal(value, seen["bias"][key]), key
    assert any(not torch.equal(value, seen["uplift"][key]) for key, value in after.uplift.state_dict().items())
    network = model.network.double()
    logit = network.bias(
        torch.from_numpy(model.inputs.numeric(rows)).double(), torch.from_numpy(model.inputs.category(rows))
    )
    lowest = torch.sigmoid(logit).detach().numpy().astype(np.float32)
    np.testing.assert_array_equal(model.curve(rows).response[0], lowest)


def test_without_features_its_maximum_likelihood_is_pooled_adjacent_violators() -> None:
    random = np.random.default_rng(3)
    level = random.integers(0, 5, 4000)
    y = (random.random(4000) < np.array([0.2, 0.5, 0.3, 0.35, 0.6])[level]).astype(float)
    share = np.array([y[level == j].mean() for j in range(5)])
    pava = IsotonicRegression().fit(np.arange(5), share, sample_weight=np.bincount(level)).predict(np.arange(5))
    assert np.any(np.diff(share) < 0), "a violator must be there to be pooled"
    empty = fit_tabular(pd.DataFrame({"level": level}))
    network = DipnNetwork(empty, 5).double()
    numeric, category = torch.zeros(4000, 0).double(), torch.zeros(4000, 0, dtype=torch.int64)
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=2000, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )
    target, index = torch.from_numpy(y), torch.from_numpy(level)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        logit = network.at(numeric, category, index)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, target)
        loss.backward()
        return loss

    optimizer.step(closure)
    found = torch.sigmoid(network(numeric[:1], category[:1])).detach().numpy()[0]
    np.testing.assert_allclose(found, pava, atol=2e-4)


def test_a_roughness_that_costs_everything_gives_a_line_in_logits_over_the_levels_index() -> None:
    rows = frame(3000)
    straight = make("dipn", levels=LEVELS, training=QUICK, smooth_from=1e4, smooth_to=1e4).fit(rows)
    free = make("dipn", levels=LEVELS, training=QUICK, smooth_from=0.0, smooth_to=0.0).fit(rows)

    def bend(model) -> float:
        p = model.curve(rows).response.astype(float)
        steps = np.diff(np.log(p / (1 - p)), axis=0)
        return float((steps.std(axis=0) / steps.mean(axis=0)).mean())

    assert bend(straight) < 0.02
    assert bend(free) > 0.1


def test_alpha_falls_linearly_to_its_end_at_half_of_the_steps() -> None:
    model = make("dipn", levels=LEVELS, smooth_from=0.1, smooth_to=0.02)
    assert model.alpha(0, 100) == pytest.approx(0.1)
    assert model.alpha(25, 100) == pytest.approx(0.06)
    assert model.alpha(51, 100) == model.alpha(99, 100) == 0.02


def test_it_learns_the_curves_of_each_kind() -> None:
    rows = frame(12_000)
    model = make("dipn", levels=LEVELS, training=TrainingConfig(learning_rate=1e-2, epochs=30, patience=10)).fit(rows)
    kinds = pd.DataFrame({"account_id": ["p", "q", "r"], "c_kind": ["u", "v", "w"], "x_trait": 0.0})
    logit = np.array([-2.0, -1.0, 0.5]) + np.sqrt(LEVELS)[:, None] * np.array([0.3, 0.1, 0.2])
    assert np.abs(model.curve(kinds).response - 1 / (1 + np.exp(-logit))).max() < 0.08


def test_without_a_row_of_the_lowest_level_it_says_why_it_cannot_learn() -> None:
    rows = frame(300)
    with pytest.raises(InvalidInput, match=r"level: the bias is learned from rows of the lowest level"):
        make("dipn", levels=LEVELS, training=QUICK).fit(rows[rows["level"] > 0])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"smooth_from": 0.0, "smooth_to": 0.1}, "smooth_from"),
        ({"held_out": 0.0}, "held_out"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        make("dipn", levels=LEVELS, **options)
