"""The effect of a level within cells, on data whose levels went with what else drives the response."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.uplift.slope import within_slope
from shadowprice.responses.repair.effect import Effect, UsualLevels

LEVELS = np.array([100, 500, 1000, 3000])
TRUE = np.array([0.0, 0.8, 0.8, 1.4])
"""Logits over the lowest level."""


def expit(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def confounded(rows: int, seed: int, effect: np.ndarray = TRUE) -> tuple[pd.DataFrame, np.ndarray]:
    """Merchants who give more have customers who respond less; the truth (J, n) rises by ``effect``."""
    rng = np.random.default_rng(seed)
    merchant = rng.integers(0, 60, rows)
    taste = np.linspace(0.5, -2.5, 60)[merchant]
    center = np.linspace(0, 3, 60)[merchant]
    weight = np.exp(-1.5 * np.abs(np.arange(4)[:, None] - center))
    level = (rng.uniform(size=rows) > np.cumsum(weight / weight.sum(axis=0), axis=0)).sum(axis=0)
    truth = expit(taste + effect[:, None])
    frame = pd.DataFrame(
        {
            "account_id": [f"u{i // 2}" for i in range(rows)],
            "partner_id": [f"m{m}" for m in merchant],
            "level": level,
            "x_trait": taste,
            "response": (rng.uniform(size=rows) < truth[level, np.arange(rows)]).astype(float),
        }
    )
    return frame, truth


def flat_model(frame: pd.DataFrame) -> Curves:
    """What a good ranker that does not see the level says: the mean response of each merchant."""
    other, _ = confounded(40_000, 99)
    mean = other.groupby("partner_id")["response"].mean()
    return Curves(LEVELS, np.tile(frame["partner_id"].map(mean).to_numpy(), (4, 1)).astype(np.float32))


def fitted(
    frame: pd.DataFrame, curves: Curves, columns: tuple[str, ...] = ("partner_id",)
) -> tuple[UsualLevels, Effect]:
    usual = UsualLevels.fit(frame, frame["level"].to_numpy(), 4, columns)
    effect = Effect.fit(
        curves,
        frame["level"].to_numpy(),
        frame["response"].to_numpy(),
        usual(frame),
        cluster=frame["account_id"].to_numpy(dtype=str),
    )
    return usual, effect


def test_it_finds_the_effect_that_the_raw_response_hides() -> None:
    frame, truth = confounded(40_000, 0)
    raw = frame.groupby("level")["response"].mean()
    assert raw[3] < raw[0], "the data set is one in which the raw response falls"
    curves = flat_model(frame)
    usual, effect = fitted(frame, curves)
    np.testing.assert_allclose(effect.height, TRUE, atol=0.15)
    assert effect.standard_error[2] == 0, "a step that is not there is dropped"
    after = effect.apply(curves, usual(frame)).response
    assert np.abs(after - truth).mean() < 0.02
    assert np.abs(curves.response - truth).mean() > 0.08
    blind = fitted(frame, curves, columns=())[1]
    assert blind.height[-1] < TRUE[-1] - 0.4, "without cells the levels given to other merchants hide half of it"


def test_it_agrees_with_the_slope_within_cells_that_regression_finds() -> None:
    frame, _ = confounded(40_000, 1)
    curves = flat_model(frame)
    usual, effect = fitted(frame, curves)
    predicted = effect.apply(curves, usual(frame)).response[frame["level"], np.arange(len(frame))]
    amount = LEVELS[frame["level"]]
    data = within_slope(frame["response"], amount, [frame["partner_id"].to_numpy(str)])
    model = within_slope(predicted, amount, [frame["partner_id"].to_numpy(str)])
    assert data.low < model.value < data.high


def test_the_steps_are_the_logistic_regression_with_an_offset_when_all_rise() -> None:
    frame, _ = confounded(8000, 2, np.array([0.0, 1.0, 2.0, 3.0]))
    curves = flat_model(frame)
    usual, effect = fitted(frame, curves)
    above = np.cumsum(usual(frame)[::-1], axis=0)[::-1][1:]
    z = (frame["level"].to_numpy() >= np.arange(1, 4)[:, None]) - above
    base = np.clip(curves.response[0].astype(float), 1e-6, 1 - 1e-6)
    fit = sm.GLM(
        frame["response"].to_numpy(), z.T, family=sm.families.Binomial(), offset=np.log(base / (1 - base))
    ).fit(cov_type="cluster", cov_kwds={"groups": pd.factorize(frame["account_id"])[0], "use_correction": False})
    np.testing.assert_allclose(np.diff(effect.height), fit.params, atol=1e-4)
    np.testing.assert_allclose(effect.standard_error[1:], fit.bse, rtol=1e-3)


def test_no_effect_is_found_where_there_is_none() -> None:
    found = []
    for seed in range(20):
        frame, _ = confounded(4000, seed, np.zeros(4))
        found.append(fitted(frame, flat_zero(frame))[1].height[-1] > 0)
    assert np.mean(found) < 0.25


def flat_zero(frame: pd.DataFrame) -> Curves:
    return Curves(LEVELS, np.tile(expit(frame["x_trait"].to_numpy()), (4, 1)).astype(np.float32))


def test_at_what_is_always_given_the_prediction_stays() -> None:
    frame, _ = confounded(2000, 3)
    frame["level"] = frame["partner_id"].str[1:].astype(int) % 4
    curves = flat_model(frame)
    usual = UsualLevels.fit(frame, frame["level"].to_numpy(), 4, ["partner_id"])
    effect = Effect(TRUE, np.zeros(4))
    after = effect.apply(curves, usual(frame)).response[frame["level"], np.arange(2000)]
    np.testing.assert_allclose(after, curves.response[0], atol=0.03)


def test_usual_levels_lean_on_the_coarser_cell() -> None:
    frame = pd.DataFrame({"x_a": [1.5, 1.5, 1.5, 2.0], "partner_id": ["m", "m", "n", "o"], "level": [0, 1, 1, 2]})
    usual = UsualLevels.fit(frame, frame["level"].to_numpy(), 3, ["x_a", "partner_id"])
    overall = np.array([1, 2, 1]) / 4
    coarse = (np.array([1, 2, 0]) + overall) / 4
    asked = pd.DataFrame({"x_a": np.array([1.5, 1.5, 9.0], dtype=np.float32), "partner_id": ["m", "new", "m"]})
    shares = usual(asked)
    np.testing.assert_allclose(shares[:, 0], (np.array([1, 1, 0]) + coarse) / 3, atol=1e-6)
    np.testing.assert_allclose(shares[:, 1], coarse, atol=1e-6)
    np.testing.assert_allclose(shares[:, 2], overall, atol=1e-6)
    again = UsualLevels.from_dict(json.loads(json.dumps(usual.to_dict())))
    np.testing.assert_array_equal(again(asked), shares)
    with pytest.raises(InvalidInput, match="x_b"):
        UsualLevels.fit(frame, frame["level"].to_numpy(), 3, ["x_b"])


def test_a_ratio_is_moved_on_its_own_scale() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 5000)
    y = 2.0 + np.array([0.0, 0.5, 0.7])[level] + rng.normal(0, 0.3, 5000)
    curves = Curves([0, 10, 20], np.full((3, 5000), 2.0 + 1.2 / 3, dtype=np.float32))
    usual = np.full((3, 5000), 1 / 3)
    effect = Effect.fit(curves, level, y, usual, probability=False)
    np.testing.assert_allclose(effect.height, [0.0, 0.5, 0.7], atol=0.04)
    np.testing.assert_allclose(effect.apply(curves, usual).response[:, 0], [2.0, 2.5, 2.7], atol=0.05)
    again = Effect.from_dict(json.loads(json.dumps(effect.to_dict())))
    np.testing.assert_array_equal(again.apply(curves, usual).response, effect.apply(curves, usual).response)
