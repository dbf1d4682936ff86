"""The joint test of customers' and merchants' incentives."""

import numpy as np
import pytest
import statsmodels.api as sm

from shadowprice.errors import InvalidInput
from shadowprice.experiments.factorial import factorial

CUSTOMERS, MERCHANTS, ROWS = 400, 150, 3000
EFFECTS = np.array([0.3, 0.2, 0.15])


def trial(rng: np.random.Generator, effects: np.ndarray = EFFECTS) -> dict[str, np.ndarray]:
    """Requests whose customers and merchants have traits and arms of their own."""
    who, where = rng.integers(0, CUSTOMERS, ROWS), rng.integers(0, MERCHANTS, ROWS)
    a = (rng.permutation(CUSTOMERS) % 2 == 0)[who]
    b = (rng.permutation(MERCHANTS) % 2 == 0)[where]
    traits = rng.normal(0, 0.5, CUSTOMERS)[who] + rng.normal(0, 0.5, MERCHANTS)[where]
    design = np.stack([a - 0.5, b - 0.5, (a - 0.5) * (b - 0.5)])
    y = 1.0 + effects @ design + traits + rng.normal(size=ROWS)
    return {"y": y, "customer_on": a, "merchant_on": b, "customer": who, "merchant": where}


def test_effects_and_errors_are_those_of_a_regression_with_two_way_clusters() -> None:
    rows = trial(np.random.default_rng(0))
    found = factorial(**rows)
    a, b = rows["customer_on"] - 0.5, rows["merchant_on"] - 0.5
    fit = sm.OLS(rows["y"], np.stack([np.ones(ROWS), a, b, a * b], axis=1)).fit()
    pair = rows["customer"] * MERCHANTS + rows["merchant"]
    first, second, both = (
        fit.get_robustcov_results("cluster", groups=way).bse[1:] ** 2
        for way in (rows["customer"], rows["merchant"], pair)
    )
    # Where the difference is smaller than a single way, that way is the safe choice.
    errors = np.sqrt(np.maximum(first + second - both, np.maximum(first, second)))
    effects = (found.customers, found.merchants, found.interaction)
    assert [each.value for each in effects] == pytest.approx(fit.params[1:].tolist())
    assert [each.error for each in effects] == pytest.approx(errors.tolist(), rel=0.01)


def test_intervals_cover_the_truth_and_the_joint_test_keeps_its_level() -> None:
    rng = np.random.default_rng(1)
    covered, rejected, detected = [], [], []
    for _ in range(150):
        found = factorial(**trial(rng))
        effects = (found.customers, found.merchants, found.interaction)
        covered.append([each.low <= truth <= each.high for each, truth in zip(effects, EFFECTS, strict=True)])
        detected.append(found.p_value < 0.05)
        rejected.append(factorial(**trial(rng, np.zeros(3))).p_value < 0.05)
    noise = 3 * np.sqrt(0.05 * 0.95 / 150)
    assert (np.mean(covered, axis=0) > 0.95 - noise).all()
    assert np.mean(rejected) < 0.05 + noise
    assert np.mean(detected) > 0.5


def test_a_cell_without_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="customer_on 1 and merchant_on 1"):
        factorial([1.0, 2.0, 3.0], [0, 1, 0], [0, 0, 1], [1, 2, 3], [1, 2, 3])
