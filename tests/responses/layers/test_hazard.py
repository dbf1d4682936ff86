import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from lifelines import ExponentialFitter
from sklearn.isotonic import IsotonicRegression

from shadowprice.datasets.world import CHANGE_POINTS, CUSTOMER_LEVELS, customer_response
from shadowprice.responses.layers.hazard import HazardLayer, log1mexp
from shadowprice.testing import assert_monotone

LEVELS = np.array([20, 50, 60, 100, 200])


def simulate(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    level = random.integers(0, LEVELS.size, rows)
    threshold = random.exponential(150.0, rows)
    return level, (threshold <= LEVELS[level]).astype(np.float64)


def curve(layer: HazardLayer) -> np.ndarray:
    with torch.no_grad():
        return 1 - torch.exp(-layer(torch.zeros(1, layer.first.numel(), dtype=layer.first.dtype))).numpy()[0]


def test_the_curve_never_falls_for_any_weights() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        layer = HazardLayer(8, LEVELS)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.normal_(std=4.0)
            response = 1 - torch.exp(-layer(torch.randn(50, 8) * 3))
        assert_monotone(response.numpy().T)
        assert float(response.max()) <= 1.0


def test_free_segments_without_features_are_the_isotonic_regression_of_the_redemption_rates(
    fit_intercepts,
) -> None:
    level, y = simulate(4000)
    # make one pair of neighbors violate the order
    y[(level == 2)] = (np.random.default_rng(9).random((level == 2).sum()) < 0.15).astype(float)
    rate = np.array([y[level == j].mean() for j in range(LEVELS.size)])
    count = np.bincount(level)
    pava = IsotonicRegression().fit_transform(LEVELS, rate, sample_weight=count)
    assert rate[2] < rate[1], "the rows must contain a violating pair for this test to say anything"
    np.testing.assert_allclose(fit_intercepts(LEVELS, level, y)[0], pava, atol=2e-4)


def test_one_level_has_the_closed_form(fit_intercepts) -> None:
    y = np.zeros(500)
    y[:113] = 1
    curve, _ = fit_intercepts(np.array([80]), np.zeros(500, dtype=np.int64), y)
    assert -np.log1p(-curve[0]) / 80 == pytest.approx(-np.log(1 - 113 / 500) / 80, rel=1e-9)


@pytest.mark.filterwarnings("ignore::lifelines.exceptions.ApproximationWarning")
def test_one_level_agrees_with_lifelines_interval_censoring(fit_intercepts) -> None:
    y = np.zeros(500)
    y[:113] = 1
    # in units of 100 minor units: lifelines starts its search at 1 and does not find 312
    lower, upper = np.where(y == 1, 0, 0.8), np.where(y == 1, 0.8, np.inf)
    fitted = ExponentialFitter().fit_interval_censoring(lower, upper)
    curve, loglik = fit_intercepts(np.array([80]), np.zeros(500, dtype=np.int64), y)
    assert 0.8 / -np.log1p(-curve[0]) == pytest.approx(fitted.lambda_, rel=1e-4)
    assert loglik == pytest.approx(fitted.log_likelihood_, rel=1e-7)


def test_one_level_with_features_is_complementary_log_log_regression() -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(3000, 2))
    p = 1 - np.exp(-np.exp(x @ [0.7, -0.4] - 0.8))
    y = (random.random(3000) < p).astype(float)
    reference = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial(link=sm.families.links.CLogLog())).fit(
        tol=1e-13
    )
    torch.set_default_dtype(torch.float64)
    try:
        layer = HazardLayer(2, np.array([100]))
        optimizer = torch.optim.LBFGS(
            layer.parameters(), max_iter=500, tolerance_grad=1e-13, tolerance_change=0, line_search_fn="strong_wolfe"
        )

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = layer.loss(torch.from_numpy(x), torch.zeros(3000, dtype=torch.long), torch.from_numpy(y)).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    finally:
        torch.set_default_dtype(torch.float32)
    found = np.r_[float(layer.bias.detach()[0]), layer.weight.detach().numpy()[0]]
    np.testing.assert_allclose(found, reference.params, atol=1e-5)


def test_unequal_widths_are_part_of_the_integral() -> None:
    layer = HazardLayer(1, LEVELS)
    with torch.no_grad():
        layer.first_bias.fill_(np.log(0.4))
    expected = 1 - np.exp(-0.4 * LEVELS / 100)
    np.testing.assert_allclose(curve(layer), expected, rtol=1e-6)


def test_gradients_are_finite_at_both_ends_and_correct_between() -> None:
    hazards = torch.tensor([1e-12, 1e-6, 0.3, 0.6931, 0.6932, 5.0, 1e3], dtype=torch.float64, requires_grad=True)
    log1mexp(hazards).sum().backward()
    assert torch.isfinite(hazards.grad).all()
    inner = torch.tensor([1e-3, 0.5, 0.7, 4.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log1mexp, (inner,))


def test_a_base_mass_lets_someone_respond_to_nothing(fit_intercepts) -> None:
    levels = np.array([0, 50, 100])
    random = np.random.default_rng(5)
    level = random.integers(0, 3, 6000)
    p = 1 - np.exp(-(0.3 + 0.01 * levels[level]))
    y = (random.random(6000) < p).astype(float)
    found, _ = fit_intercepts(levels, level, y)
    rate = [y[level == j].mean() for j in range(3)]
    np.testing.assert_allclose(found, rate, atol=1e-6)
    assert found[0] > 0.2


def test_a_large_fusion_makes_all_weights_equal_as_in_the_cox_head() -> None:
    torch.manual_seed(0)
    layer = HazardLayer(4, LEVELS, fusion=10.0)
    with torch.no_grad():
        layer.increments.normal_()
    layer.shrink(lambda parameter: torch.ones_like(parameter))
    assert torch.equal(layer.increments, torch.zeros_like(layer.increments))
    embedding = torch.randn(30, 4)
    with torch.no_grad():
        layer.first.normal_()
        log_hazard = torch.log(layer(embedding))
    difference = log_hazard - log_hazard[:1]
    np.testing.assert_allclose(difference.std(dim=1).numpy(), 0, atol=1e-5)


def test_free_weights_are_not_proportional_hazards() -> None:
    torch.manual_seed(0)
    layer = HazardLayer(4, LEVELS)
    with torch.no_grad():
        layer.increments.normal_()
        log_hazard = torch.log(layer(torch.randn(30, 4)))
    assert float((log_hazard - log_hazard[:1])[1:].std(dim=1).min()) > 0.05


def test_calibration_finds_the_factor_that_was_planted() -> None:
    random = np.random.default_rng(7)
    torch.manual_seed(1)
    layer = HazardLayer(3, LEVELS)
    with torch.no_grad():
        layer.first_bias.fill_(-1.0)
        embedding = torch.randn(40_000, 3)
        level = torch.from_numpy(random.integers(0, LEVELS.size, 40_000))
        hazard = layer(embedding).gather(1, level[:, None]).squeeze(1).numpy()
    y = torch.from_numpy((random.random(40_000) < 1 - np.exp(-1.7 * hazard)).astype(np.float32))
    account = torch.arange(40_000)
    assert np.exp(layer.calibrate(embedding, level, y, account)) == pytest.approx(1.7, rel=0.03)
    assert layer.calibrate(embedding, level, y, account) == 0.0


def test_calibration_leaves_alone_what_chance_explains() -> None:
    """Rows of one account repeat its luck, so a hundred accounts say little however many rows they have."""
    corrected = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        layer = HazardLayer(1, LEVELS)
        layer.correct(-1.5)
        level = torch.from_numpy(random.integers(0, LEVELS.size, 5000))
        account = torch.arange(5000) // 50
        luck = np.repeat(random.choice([0.5, 1.5], size=100), 50)
        with torch.no_grad():
            hazard = layer(torch.zeros(5000, 1)).gather(1, level[:, None]).squeeze(1).numpy()
        y = torch.from_numpy((random.random(5000) < luck * (1 - np.exp(-hazard))).astype(np.float32))
        corrected += layer.calibrate(torch.zeros(5000, 1), level, y, account) != 0.0
    assert corrected <= 8


def test_the_exported_head_gives_the_same_curve() -> None:
    torch.manual_seed(2)
    layer = HazardLayer(6, np.array([0, 30, 90]))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
        embedding = torch.randn(25, 6)
        expected = 1 - torch.exp(-layer(embedding))
    head = layer.to_head(np.zeros(6, dtype=np.float32))
    np.testing.assert_allclose(head.response(embedding.numpy()), expected.numpy().T, atol=1e-6)


def test_a_start_from_data_is_near_the_observed_rates() -> None:
    level, y = simulate(20_000, seed=4)
    layer = HazardLayer(2, LEVELS)
    with torch.no_grad():
        layer.first.zero_()
        layer.increments.zero_()
    layer.start(level, y)
    observed = pd.Series(y).groupby(level).mean().to_numpy()
    np.testing.assert_allclose(curve(layer), np.maximum.accumulate(observed), atol=0.03)


def test_the_proximal_step_leaves_weights_that_change_at_the_planted_points_and_nowhere_else() -> None:
    """Accounts of `world` with their traits as embedding: weights change behind 80 and behind 100 cents."""
    random = np.random.default_rng(0)
    levels = np.array(CUSTOMER_LEVELS)
    strength = random.normal(size=(20_000, 2))
    level = random.integers(0, levels.size, 20_000)
    y = random.random(20_000) < customer_response(strength)[level, np.arange(20_000)]
    embedding, index = torch.tensor(strength, dtype=torch.float32), torch.from_numpy(level)
    target = torch.from_numpy(y.astype(np.float32))
    found = {}
    for fusion in (1e-3, 1e-1):
        layer = HazardLayer(2, levels, fusion=fusion, penalty="group")
        layer.start(level, y.astype(np.float64))
        parameters = list(layer.parameters())
        before = [each.detach().clone() for each in parameters]
        for step in range(400):
            with torch.no_grad():  # Nesterov's momentum, then a gradient step and the proximal one
                for place, each in enumerate(parameters):
                    now = each.detach().clone()
                    each += min(0.95, step / (step + 3)) * (now - before[place])
                    before[place] = now
            slopes = torch.autograd.grad(layer.loss(embedding, index, target).mean(), parameters)
            with torch.no_grad():
                for each, slope in zip(parameters, slopes, strict=True):
                    each -= 0.5 * slope
            layer.shrink(lambda parameter: torch.full_like(parameter, 0.5))
        found[fusion] = layer.change_points().tolist()
    assert found == {1e-3: list(CHANGE_POINTS), 1e-1: []}
