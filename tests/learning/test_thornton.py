"""The randomised cash incentive of Thornton (2008): the hazard head against lifelines and against the arms."""

import numpy as np
import pandas as pd
import pytest
import torch
from lifelines import ExponentialFitter, PiecewiseExponentialFitter

from shadowprice.datasets import load
from shadowprice.evaluation.current_status import CurrentStatus
from shadowprice.evaluation.means import wilson
from shadowprice.evaluation.segments import fit_segments
from shadowprice.responses import make
from shadowprice.responses.hazard import HazardLayer
from shadowprice.responses.training import TrainingConfig
from shadowprice.tables import labelled
from shadowprice.testing import assert_monotone


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return labelled(load("thornton").tables, "customer")


@pytest.fixture(scope="module")
def levels(rows: pd.DataFrame) -> np.ndarray:
    return np.sort(rows["face_value"].unique())


def paid_arms(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    paid = rows[rows["face_value"] > 0]
    return paid["face_value"].to_numpy(dtype=np.float64) / 100, paid["response"].to_numpy(dtype=np.float64)


@pytest.mark.filterwarnings("ignore::lifelines.exceptions.ApproximationWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:lifelines")
@pytest.mark.filterwarnings("ignore::UserWarning:lifelines")
def test_with_one_rate_for_all_it_is_lifelines_exponential_fit(rows: pd.DataFrame) -> None:
    amount, y = paid_arms(rows)
    fitted = ExponentialFitter().fit_interval_censoring(np.where(y == 1, 0, amount), np.where(y == 1, amount, np.inf))
    cents = np.rint(amount * 100).astype(np.int64)
    levels, level = np.unique(cents, return_inverse=True)
    torch.set_default_dtype(torch.float64)
    try:
        # fused without bound, the head has one rate for all segments, whatever their widths
        layer = HazardLayer(1, levels)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.first_bias.fill_(float(-np.log(fitted.lambda_)))
        losses = layer.loss(torch.zeros(y.size, 1), torch.from_numpy(level), torch.from_numpy(y))
        slope = torch.autograd.grad(losses.sum(), layer.first_bias)[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert -float(losses.sum().detach()) == pytest.approx(fitted.log_likelihood_, rel=1e-6)
    assert abs(float(slope)) < 1e-2 * y.size**0.5, "lifelines' optimum must be the head's"


@pytest.mark.filterwarnings("ignore::lifelines.exceptions.ApproximationWarning")
@pytest.mark.filterwarnings("ignore::lifelines.exceptions.StatisticalWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_two_rates_it_is_lifelines_piecewise_exponential_fit(rows: pd.DataFrame) -> None:
    cut = 0.95
    amount, y = paid_arms(rows)
    fitted = PiecewiseExponentialFitter([cut]).fit_interval_censoring(
        np.where(y == 1, 0, amount), np.where(y == 1, amount, np.inf)
    )
    cents = np.rint(amount * 100).astype(int)
    levels, level = np.unique(cents, return_inverse=True)
    ours = fit_segments(CurrentStatus(y, level, levels), [0, 95, int(levels[-1])])
    assert ours.loglik == pytest.approx(fitted.log_likelihood_, rel=1e-5)


def test_its_curve_lies_inside_the_interval_of_every_arm(
    rows: pd.DataFrame, levels: np.ndarray, fit_intercepts
) -> None:
    level, y = rows["level"].to_numpy(), rows["response"].to_numpy(dtype=np.float64)
    curve, loglik = fit_intercepts(levels, level, y)
    assert_monotone(curve[:, None])
    for j, response in enumerate(curve):
        arm = y[level == j]
        interval = wilson(arm.mean(), arm.size, 0.95)
        assert interval.low <= response <= interval.high, (levels[j], response, interval)
    saturated = sum(
        np.log(np.where(arm == 1, arm.mean(), 1 - arm.mean())).sum()
        for arm in (y[level == j] for j in range(levels.size))
    )
    assert loglik <= saturated
    assert saturated - loglik < 6.0, "a monotone curve should lose little likelihood on a dose-response trial"


@pytest.mark.timeout(600)
def test_the_trained_model_rises_like_the_trial(rows: pd.DataFrame, levels: np.ndarray) -> None:
    frame = rows.rename(columns={"request_id": "row"})[["account_id", "level", "response"]]
    model = make("hazard", levels=levels.tolist(), training=TrainingConfig(epochs=150, learning_rate=5e-3))
    curve = model.fit(frame).curve(frame.head(1)).response[:, 0]
    assert_monotone(curve[:, None])
    observed = frame.groupby("level")["response"].mean().to_numpy()
    assert curve[0] == pytest.approx(observed[0], abs=0.05)
    assert curve[-1] == pytest.approx(0.86, abs=0.05)
