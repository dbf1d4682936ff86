"""Random effects against statsmodels, and against simulations whose truth is known."""

import warnings

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.random_effects import between_variance, effective, random_effects


def own_clusters(variance: np.ndarray, clusters: int = 50) -> np.ndarray:
    """Influence (K, K·clusters) with these variances, every cluster in one window only."""
    influence = np.zeros((variance.size, variance.size * clusters))
    for k, each in enumerate(variance):
        influence[k, k * clusters : (k + 1) * clusters] = np.sqrt(each / clusters)
    return influence


@pytest.mark.parametrize("effect", [[0.1, 0.3, 0.5, 0.2], [0.2, 0.21, 0.19, 0.2]])
def test_with_clusters_of_their_own_it_is_the_meta_analysis_of_statsmodels(effect: list[float]) -> None:
    variance = np.array([0.01, 0.02, 0.01, 0.03])
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        # Statsmodels lets the variance between windows be negative.
        warnings.simplefilter("ignore", RuntimeWarning)
        reference = combine_effects(np.array(effect), variance, method_re="chi2")
    found = random_effects(effect, own_clusters(variance))
    tau2 = max(float(reference.tau2), 0.0)
    assert found.between == pytest.approx(tau2, abs=1e-12)
    weight = 1 / (variance + tau2)
    assert found.value == pytest.approx(float(weight @ effect / weight.sum()), rel=1e-9)
    assert found.standard_error == pytest.approx(weight.sum() ** -0.5, rel=1e-9)
    if reference.tau2 > 0:
        assert found.value == pytest.approx(reference.mean_effect_re, rel=1e-9)
        assert found.standard_error == pytest.approx(reference.sd_eff_w_re, rel=1e-9)
        assert found.degrees == 3


def test_a_cluster_that_is_in_every_window_counts_once() -> None:
    same = np.tile(np.linspace(-1.0, 1.0, 40), (5, 1))
    alone = random_effects([0.3], same[:1])
    assert random_effects([0.3] * 5, same).standard_error == pytest.approx(alone.standard_error, rel=1e-9)


def test_few_clusters_that_carry_the_effect_widen_the_interval() -> None:
    even = random_effects([0.3] * 10, np.full((10, 60), 0.005))
    carried = np.full((10, 60), 1e-5)
    carried[:, :2] = 0.005 * np.sqrt(30)
    few = random_effects([0.3] * 10, carried)
    assert few.standard_error == pytest.approx(even.standard_error, rel=0.01)
    assert even.low > 0 > few.low


def test_the_interval_covers_the_mean_of_windows_that_disagree() -> None:
    rng = np.random.default_rng(0)
    covered = too_sure = 0
    for _ in range(400):
        errors = rng.normal(0, 0.1, (6, 30)) / 30
        effect = rng.normal(0.0, 0.1, 6) + errors.sum(axis=1)
        found = random_effects(effect, errors)
        covered += found.low <= 0 <= found.high
        pooled = effect.mean()
        too_sure += abs(pooled) > 1.96 * np.sqrt((errors**2).sum()) / 6
    assert covered / 400 > 0.92
    assert too_sure / 400 > 0.5, "pooling the windows is wrong most of the time"


def test_variance_between_windows_and_effective_numbers() -> None:
    assert between_variance([1.0, 1.0, 1.0], [0.1, 0.2, 0.3]) == 0
    assert between_variance([0.0, 2.0], [0.5, 0.5]) == pytest.approx(1.5)
    assert between_variance([3.0], [0.5]) == 0
    assert effective([2.0, 2.0, 2.0]) == pytest.approx(3)
    assert effective([1.0, 0.0, 0.0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("effect", "influence"), [([], np.zeros((0, 3))), ([1.0], np.zeros((2, 3))), ([1.0], np.array([[0.1, 0.0]]))]
)
def test_bad_input_is_refused(effect: list[float], influence: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="influence"):
        random_effects(effect, influence)
