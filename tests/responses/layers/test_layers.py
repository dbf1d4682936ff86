"""The layers of S0's baselines against closed forms and references."""

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from scipy.optimize import minimize

from shadowprice.errors import InvalidInput
from shadowprice.responses.layers.base import ResponseLayer, make_layer
from shadowprice.responses.layers.extremes import farthest
from shadowprice.responses.layers.hazard import HazardLayer, shrink_groups, soft_threshold
from shadowprice.responses.layers.heads import LAYERS
from shadowprice.testing import assert_monotone

LEVELS = np.array([20, 50, 60, 100, 200])
WITH_ZERO = np.array([0, 50, 60])
RATIOS = ("linear", "per_level_ratio")
"""Layers of a response that is no probability."""


def fit(layer: ResponseLayer, h: torch.Tensor, level: np.ndarray, y: torch.Tensor) -> None:
    """Bring the mean loss of rows to its least."""
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=500, line_search_fn="strong_wolfe", tolerance_change=0)
    index = torch.from_numpy(level)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = layer.loss(h, index, y).mean()
        loss.backward()
        return loss

    optimizer.step(closure)


def noisy(name: str, width: int = 4, levels: np.ndarray = LEVELS, seed: int = 0, **options):
    torch.manual_seed(seed)
    layer = make_layer(name, width, levels, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter))
    return layer


def probability(name: str, output: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        if name in RATIOS:
            return output.clamp(min=0).numpy().T
        return (1 - torch.exp(-output) if name in ("hazard", "cox") else torch.sigmoid(output)).numpy().T


@pytest.mark.parametrize("levels", [LEVELS, WITH_ZERO, np.array([80])])
@pytest.mark.parametrize("name", sorted(LAYERS))
def test_the_exported_head_gives_the_curve_of_the_layer(name: str, levels: np.ndarray) -> None:
    layer = noisy(name, levels=levels)
    embedding = torch.randn(30, 4)
    head = layer.to_head(np.zeros(4, dtype=np.float32))
    np.testing.assert_allclose(head.response(embedding.numpy()), probability(name, layer(embedding)), atol=2e-6)
    moved = noisy(name, levels=levels)
    moved.correct(0.4)
    assert np.all(moved.to_head(np.zeros(4, np.float32)).response(embedding.numpy()).mean(axis=1) > 0)
    moved.correct(-0.4)
    again = moved.to_head(np.zeros(4, np.float32)).response(embedding.numpy())
    np.testing.assert_allclose(again, head.response(embedding.numpy()), atol=1e-5)


@pytest.mark.parametrize("name", ["hazard", "cox", "sbbm", "gradient_logit", "linear"])
def test_a_curve_that_may_not_fall_does_not_for_any_weights(name: str) -> None:
    for seed in range(10):
        layer = noisy(name, seed=seed)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(3.0)
        assert_monotone(layer.to_head(np.zeros(4, np.float32)).response(3 * torch.randn(40, 4).numpy()))


def test_the_curve_of_two_towers_may_fall() -> None:
    """So it claims nothing: a lower incentive may look better than a higher one."""
    fallen = [np.diff(probability("dssm_c", noisy("dssm_c", seed=s)(torch.randn(40, 4))), axis=0) for s in range(10)]
    assert min(float(each.min()) for each in fallen) < -0.01


@pytest.mark.parametrize("levels", [LEVELS, WITH_ZERO])
def test_cox_hazards_factorize(levels: np.ndarray) -> None:
    layer = noisy("cox", levels=levels)
    with torch.no_grad():
        log_hazard = torch.log(layer(0.5 * torch.randn(30, 4)))
    spread = (log_hazard - log_hazard[:1]).std(dim=1)
    np.testing.assert_allclose(spread.numpy(), 0, atol=1e-5)


@pytest.mark.parametrize("penalty", ["lasso", "group"])
def test_an_infinite_fusion_gives_the_cox_layer(penalty: str) -> None:
    hazard = noisy("hazard", fusion=1e6, penalty=penalty)
    hazard.shrink(lambda parameter: torch.full_like(parameter, 1e-3))
    cox = make_layer("cox", 4, LEVELS)
    with torch.no_grad():
        cox.shared.copy_(hazard.first)
        cox.first_bias.copy_(hazard.first_bias)
        cox.bias_increments.copy_(hazard.bias_increments)
        embedding = torch.randn(20, 4)
        np.testing.assert_allclose(hazard(embedding).numpy(), cox(embedding).numpy(), rtol=1e-5)
    assert hazard.change_points().size == 0


def test_change_points_are_read_off_where_increments_stay() -> None:
    layer = HazardLayer(3, LEVELS, fusion=1.0)
    with torch.no_grad():
        layer.increments.copy_(torch.tensor([[0.2, 0, 0], [2.0, 0, 0], [0.5, -0.5, 0.5], [0, 0, -3.0]]))
    layer.shrink(lambda parameter: torch.full_like(parameter, 0.6))
    assert layer.change_points().tolist() == [50, 100]
    np.testing.assert_allclose(layer.increments.detach()[1], [1.4, 0, 0], atol=1e-6)


@pytest.mark.parametrize("penalty", ["lasso", "group"])
def test_the_proximal_step_is_the_minimum_it_stands_for(penalty: str) -> None:
    random = np.random.default_rng(3)
    values, step = random.normal(size=(6, 3)), random.uniform(0.5, 2.5, (6, 3))
    shorten = soft_threshold if penalty == "lasso" else shrink_groups
    found = shorten(torch.from_numpy(values), torch.from_numpy(step)).numpy()

    def objective(x: np.ndarray, row: int) -> float:
        size = np.abs(x).sum() if penalty == "lasso" else np.linalg.norm(x)
        return float((0.5 * (x - values[row]) ** 2 / step[row]).sum() + size)

    zeros = 0
    for row in range(6):
        starts = [values[row], np.zeros(3), 0.3 * values[row]]
        best = min(
            minimize(objective, start, args=(row,), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
            for start in starts
        )
        assert objective(found[row], row) <= best + 1e-9
        zeros += int(not found[row].any())
    if penalty == "group":
        assert 0 < zeros < 6


def test_sbbm_with_a_slope_per_account_is_the_gradient_model() -> None:
    account = noisy("sbbm", slope="account")
    gradient = make_layer("gradient_logit", 4, LEVELS)
    with torch.no_grad():
        gradient.slope.load_state_dict(account.gate.state_dict())
        gradient.base.load_state_dict(account.base.state_dict())
        gradient.intercept.copy_(account.intercept)
        embedding = torch.randn(20, 4)
        np.testing.assert_allclose(account(embedding).numpy(), gradient(embedding).numpy(), atol=1e-6)


def test_the_sensitivity_of_a_head_is_the_slope_of_its_logit() -> None:
    for options in ({"slope": "segment"}, {"slope": "account"}):
        head = noisy("sbbm", **options).to_head(np.zeros(4, dtype=np.float32))
        embedding = 0.3 * np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        f = head.response(embedding).astype(float)
        slope = np.diff(np.log(f / (1 - f)), axis=0) / (np.diff(LEVELS)[:, None] / 100)
        np.testing.assert_allclose(slope, np.tile(head.sensitivity(embedding), (4, 1)), rtol=2e-3)


def test_without_features_the_gradient_model_is_logistic_regression() -> None:
    random = np.random.default_rng(1)
    level = random.integers(0, 5, 1000)
    y = (random.random(1000) < 1 / (1 + np.exp(1.5 - 1.2 * LEVELS[level] / 100))).astype(float)
    reference = sm.Logit(y, sm.add_constant(LEVELS[level] / 100)).fit(disp=0).params
    torch.set_default_dtype(torch.float64)
    try:
        layer = make_layer("gradient_logit", 1, LEVELS)
        layer.start(level, y)
        fit(layer, torch.zeros(1000, 1), level, torch.from_numpy(y))
        slope = float(torch.nn.functional.softplus(layer.slope.bias.detach())[0])
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose([float(layer.intercept.detach()[0]), slope], reference, atol=1e-5)


@pytest.mark.parametrize("name", ["sbbm", "dssm_c", "gradient_logit"])
def test_calibration_brings_the_mean_to_that_of_held_out_rows(name: str) -> None:
    layer = noisy(name)
    torch.manual_seed(5)
    embedding, account = 0.3 * torch.randn(20_000, 4), torch.arange(20_000)
    level = torch.randint(0, 5, (20_000,))
    y = (torch.rand(20_000) < 0.37).float()
    layer.calibrate(embedding, level, y, account)
    mean = probability(name, layer(embedding))[level.numpy(), np.arange(20_000)].mean()
    assert mean == pytest.approx(float(y.mean()), abs=1e-5)
    assert layer.calibrate(embedding, level, y, account) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_row_of_weight_three_starts_and_calibrates_as_three_rows_do(name: str) -> None:
    random = np.random.default_rng(3)
    weight = random.integers(0, 4, 600)
    level, account = random.integers(0, 5, 600), np.arange(600) // 2
    y = (random.random(600) < 0.1 + 0.1 * level).astype(np.float64)
    embedding = (0.3 * random.normal(size=(600, 4))).astype(np.float32)
    again = np.repeat(np.arange(600), weight)
    weighted, repeated = noisy(name), noisy(name)
    weighted.start(level, y, weight.astype(np.float64))
    repeated.start(level[again], y[again])

    def corrected(layer: ResponseLayer, rows: np.ndarray, weights: torch.Tensor | None) -> float:
        h, j, a = torch.from_numpy(embedding[rows]), torch.from_numpy(level[rows]), torch.from_numpy(account[rows])
        return layer.calibrate(h, j, torch.from_numpy(y[rows].astype(np.float32)), a, weights)

    assert_same_parameters(weighted, repeated)
    for layer in (weighted, repeated):
        layer.correct(3.0)
    first = corrected(weighted, np.arange(600), torch.from_numpy(weight.astype(np.float32)))
    assert first == pytest.approx(corrected(repeated, again, None), abs=1e-4)
    assert abs(first) > 0.1
    assert_same_parameters(weighted, repeated)


def assert_same_parameters(one: ResponseLayer, other: ResponseLayer) -> None:
    for (name, ours), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", ["sbbm", "gradient_logit"])
def test_a_start_from_data_is_near_the_observed_rates(name: str) -> None:
    random = np.random.default_rng(2)
    level = random.integers(0, 5, 20_000)
    p = 1 / (1 + np.exp(1.0 - 0.8 * LEVELS / 100))
    layer = make_layer(name, 4, LEVELS)
    layer.start(level, (random.random(20_000) < p[level]).astype(float))
    found = probability(name, layer(torch.zeros(1, 4)))[:, 0]
    np.testing.assert_allclose(found, p, atol=0.05)


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("hazard", {"penalty": "ridge"}, "penalty"),
        ("hazard", {"fusion": -1.0}, "fusion"),
        ("sbbm", {"slope": "nobody"}, "slope"),
        ("sbbm", {"segments": 0}, "segments"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, options: dict, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        make_layer(name, 4, LEVELS, **options)


@pytest.mark.parametrize("unit", [1, 50, 10_000, 100_000])
@pytest.mark.parametrize("name", sorted(set(LAYERS) - {"dssm_c"}))
def test_a_start_is_near_the_observed_responses_in_any_currency(name: str, unit: int) -> None:
    """Responses are the same whether the highest incentive has 4 minor units or 400,000."""
    levels, level = unit * np.arange(1, 5), np.repeat(np.arange(4), 1000)
    expected = np.array([5.0, 20.0, 40.0, 50.0] if name in RATIOS else [0.05, 0.07, 0.09, 0.12])
    y = expected[level] if name in RATIOS else (np.arange(4000) % 1000 < 1000 * expected[level]).astype(float)
    layer = make_layer(name, 4, levels)
    layer.start(level, y)
    found = probability(name, layer(torch.zeros(1, 4)))[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0.25)


@pytest.mark.parametrize("name", RATIOS)
def test_one_account_far_from_all_others_does_not_move_their_curves(name: str) -> None:
    random = np.random.default_rng(5)
    rows, far = 8000, 8
    level, trait = random.integers(0, 5, rows), random.normal(size=rows).astype(np.float32)
    y = 1.0 + 0.3 * trait + 0.2 * LEVELS[level] / 100 + 0.5 * random.normal(size=rows)
    trait[:far], y[:far] = 3.0, 40.0
    layer = make_layer(name, 1, LEVELS)
    layer.start(level, y)
    fit(layer, torch.from_numpy(trait)[:, None], level, torch.from_numpy(y.astype(np.float32)))
    usual = np.array([-1.0, 0.0, 1.0], dtype=np.float32)
    found = layer(torch.from_numpy(usual)[:, None]).detach().numpy()
    np.testing.assert_allclose(found, 1.0 + 0.3 * usual[:, None] + 0.2 * LEVELS / 100, atol=0.1)


def test_the_limits_of_responses_cut_little_of_them_and_nothing_of_usual_ones() -> None:
    random = np.random.default_rng(6)
    even = np.ones(20_000)
    usual = random.poisson(6.0, 20_000) / 6.0
    assert farthest(usual - usual.mean(), usual, even) > np.abs(usual - usual.mean()).max()
    rare = (random.random(20_000) < 0.01).astype(float)
    assert farthest(rare - rare.mean(), rare, even) == np.inf
    rare_and_noise = 10.0 * rare + 1e-3 * random.normal(size=20_000)
    for heavy in (random.lognormal(0.0, 1.5, 20_000), random.pareto(1.5, 20_000), rare_and_noise):
        residual = heavy - heavy.mean()
        cut = np.maximum(np.abs(residual) - farthest(residual, heavy, even), 0.0)
        assert 0.0 <= cut.sum() <= 0.05 * np.abs(heavy).sum()
    weight = random.integers(1, 4, 20_000)
    again, alike = np.repeat(residual, weight), np.repeat(heavy, weight)
    assert farthest(residual, heavy, weight.astype(float)) == pytest.approx(farthest(again, alike, np.ones(again.size)))
