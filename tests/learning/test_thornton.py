"""The randomized cash incentive of Thornton (2008): the hazard head against lifelines and against the arms."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from lifelines import ExponentialFitter, PiecewiseExponentialFitter

from shadowprice.datasets import load
from shadowprice.evaluation.prediction.current_status import CurrentStatus
from shadowprice.evaluation.prediction.segments import fit_segments
from shadowprice.evaluation.statistics.means import wilson
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses import make, names
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.hazard import HazardLayer
from shadowprice.responses.registry import model_class, wants
from shadowprice.responses.repair.repair import Repair
from shadowprice.responses.training import TrainingConfig
from shadowprice.tables import labeled
from shadowprice.testing import assert_monotone


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return labeled(load("thornton").tables, "customer")


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


STRAIGHT = {"sbbm": True, "gradient_logit": True, "linear": False}
"""Monotone models that are a straight line in the incentive when there are no features; whether on the logit scale.

A trial whose response jumps at the first cent lies on no such line: the reference is the best one there is.
"""
QUICK = TrainingConfig(epochs=120, learning_rate=2e-2, patience=30)


def snapshot_without_news(rows: pd.DataFrame) -> GraphSnapshot:
    """Everyone with the same interaction aggregates, and no ties."""
    people = rows[["account_id"]].drop_duplicates().assign(side="customer", h_ties=1.0)
    at = pd.Timestamp("2004-06-01", tz="UTC")
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    return build_snapshot(people, edges, at)


def made(name: str, rows: pd.DataFrame, levels: np.ndarray, training: TrainingConfig):
    """A model by name that sees no features."""
    options: dict[str, Any] = {"training": training} if "training" in wants(name) else {}
    if name == "dnn_h":
        options["inputs"] = Inputs(snapshots=[snapshot_without_news(rows)])
    return make(name, levels=levels.tolist(), seed=0, **options)


@pytest.fixture(scope="module")
def without_features(rows: pd.DataFrame, levels: np.ndarray):
    """A function that fits a model by name to the arms alone: its one curve (J,)."""
    frame = rows[["account_id", "level", "response"]]

    def fit(name: str) -> np.ndarray:
        model = made(name, rows, levels, QUICK).fit(frame)
        return np.asarray(model.curve(frame.head(1)).response[:, 0], dtype=np.float64)

    return fit


def outside(curve: np.ndarray, rows: pd.DataFrame) -> dict[int, float]:
    """Level → response of a curve, where that is not within the arm's 95 % interval."""
    found = {}
    for j, response in enumerate(curve):
        arm = rows.loc[rows["level"] == j, "response"]
        interval = wilson(float(arm.mean()), len(arm), 0.95)
        if not interval.low <= response <= interval.high:
            found[j] = float(response)
    return found


@pytest.mark.parametrize("name", [name for name in names() if model_class(name).monotone])
def test_the_curve_of_every_monotone_model_lies_inside_every_arm_or_is_the_best_line(
    name: str, rows: pd.DataFrame, levels: np.ndarray, without_features
) -> None:
    curve = without_features(name)
    assert_monotone(curve[:, None])
    if name not in STRAIGHT:
        assert outside(curve, rows) == {}
        return
    amount = sm.add_constant(rows["face_value"].to_numpy(dtype=np.float64))
    family = sm.families.Binomial() if STRAIGHT[name] else sm.families.Gaussian()
    best = sm.GLM(rows["response"].to_numpy(dtype=np.float64), amount, family=family).fit()
    line = best.predict(sm.add_constant(levels.astype(np.float64)))
    np.testing.assert_allclose(curve, line, atol=0.03)
    assert 0 in outside(line, rows), "no line has both the jump at the first cent and the plateau"


@pytest.mark.parametrize("name", [name for name in names() if model_class(name).monotone])
def test_after_curve_repair_the_curve_of_every_monotone_model_lies_inside_every_arm(
    name: str, rows: pd.DataFrame, levels: np.ndarray
) -> None:
    """Straight lines included: fitted on a fifth of the accounts, repaired on the others, judged by the arms."""
    frame = rows[["account_id", "level", "response"]]
    accounts = np.sort(frame["account_id"].unique())
    fits = frame["account_id"].isin(np.random.default_rng(5).permutation(accounts)[: accounts.size // 5])
    short = replace(QUICK, epochs=40)
    model, held_out = made(name, rows, levels, short).fit(frame[fits]), frame[~fits]
    repair = Repair.fit(
        model.curve(held_out),
        held_out["level"],
        held_out["response"],
        calibration="by_level",
        account=held_out["account_id"],
    )
    before = model.curve(frame.head(1))
    after = repair.apply(before).response[:, 0]
    assert_monotone(after[:, None])
    assert outside(after, rows) == {}
    if name in STRAIGHT:
        assert repair.notes["kept"]
        assert len(outside(before.response[:, 0], rows)) >= 8, "what repair has to do"
