"""Real coupons by rolling origin: the default of the data set, plain trees, and calibration on the last week."""

import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from operations.featurize import FeaturizeJob
from operations.featurize import run as featurize
from research.table import Primary, Rows, Summary, Table, data_folder, needs_file
from shadowprice.datasets import load
from shadowprice.datasets.o2o import LABEL_DELAY_DAYS, LABELED_FILE
from shadowprice.datasets.package import save_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.decision import uniform
from shadowprice.evaluation.statistics.means import mean
from shadowprice.learning.calibrate import uncalibrated
from shadowprice.learning.fit import fit_model
from shadowprice.learning.recipes import DEFAULTS, VALIDATION
from shadowprice.learning.rolling import Judged, Origin, as_of, judge
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import TrainingConfig

YUAN = 100.0
"""Fen per yuan."""
PLAIN, DEFAULT, LAST_WEEK = "LightGBM", "default", "calibrated on the last week"
POINTS = "mean p − mean y, points"
KNOWN = "default, labels known at the cut"
FORTNIGHT = "to 17 May"
CUTS = {
    "to 27 April": Origin(datetime(2016, 4, 28, tzinfo=UTC), datetime(2016, 5, 5, tzinfo=UTC)),
    "to 4 May": Origin(datetime(2016, 5, 5, tzinfo=UTC), datetime(2016, 5, 12, tzinfo=UTC)),
    "to 11 May": Origin(datetime(2016, 5, 12, tzinfo=UTC), datetime(2016, 5, 18, tzinfo=UTC)),
    FORTNIGHT: Origin(datetime(2016, 5, 18, tzinfo=UTC), datetime(2016, 6, 1, tzinfo=UTC)),
}
"""Cut dates: training ends before the first, the days up to the second are judged. The last was kept apart."""


@cache
def training_set(quick: bool) -> TrainingSet:
    """Return the training set of the pipeline, through the feature store; of a tenth of the users in quick mode."""
    folder = Path(tempfile.mkdtemp(prefix="o2o-"))
    try:
        dataset = load("o2o", str(data_folder() / "o2o_coupon"))
        save_dataset(sampled(dataset) if quick else dataset, folder / "data")
        job = FeaturizeJob(tables=folder / "data", workspace=folder / "workspace", training=folder / "training")
        featurize(job)
        return TrainingSet.load(folder / "training")
    finally:
        shutil.rmtree(folder)


def sampled(dataset: Dataset) -> Dataset:
    """Keep a tenth of the users, by a hash of the account, with their requests; every merchant."""
    tables = dataset.tables
    users = tables.account.loc[tables.account["side"] == "customer", "account_id"].unique()
    left_out = {user for user in users if uniform(f"sample/{user}") >= 0.1}
    exposure = tables.exposure[~tables.exposure["account_id"].isin(left_out)]
    return replace(
        dataset,
        tables=tables.replaced(
            account=tables.account[~tables.account["account_id"].isin(left_out)].reset_index(drop=True),
            edge=tables.edge[~tables.edge["src"].isin(left_out)].reset_index(drop=True),
            exposure=exposure.reset_index(drop=True),
            outcome=tables.outcome[tables.outcome["request_id"].isin(exposure["request_id"])].reset_index(drop=True),
        ),
    )


def figures(model: SidedModel, data: TrainingSet) -> dict[str, float]:
    """Judge the test rows: ranking, calibration, and the slope of the curves beside that of the log before the cut."""
    found: Judged = judge(model, data)["customer"]
    slope = found.data_slope
    assert slope is not None
    return {
        "AUC": found.auc,
        "log loss": found.logloss,
        POINTS: 100 * found.offset.value,
        "error, low": 100 * found.offset.low,
        "error, high": 100 * found.offset.high,
        "error, known merchants": 100 * found.known_offset.value,
        "known, low": 100 * found.known_offset.low,
        "known, high": 100 * found.known_offset.high,
        "error, new merchants": 100 * found.new_offset.value,
        "rows of new merchants, %": 100 * found.new_share,
        "mean y, %": 100 * found.observed,
        "curve slope per yuan": YUAN * found.curve_slope,
        "log's slope, low": YUAN * slope.low,
        "log's slope, high": YUAN * slope.high,
        "reversed pairs": found.reversed_pairs,
    }


def losses(model: SidedModel, data: TrainingSet) -> NDArray[np.float64]:
    """Return the log loss (n,) of each test row at the level given."""
    frame = data.part("test")["customer"]
    level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
    curves = model.curves(data.inputs, {"customer": frame})["customer"]
    p = np.clip(curves.response[level, np.arange(y.size)].astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(-(y * np.log(p) + (1 - y) * np.log1p(-p)))


def beside(model: SidedModel, plain: SidedModel, data: TrainingSet) -> dict[str, float]:
    """Return the log loss less that of the plain trees on the same rows; interval by user and by merchant."""
    frame = data.part("test")["customer"]
    found = mean(
        losses(model, data) - losses(plain, data),
        cluster=frame["account_id"].to_numpy(dtype=str),
        partner=frame["partner_id"].to_numpy(dtype=str),
    )
    return {"log loss less LightGBM's": found.value, "its interval, low": found.low, "high": found.high}


def run(seed: int, quick: bool) -> Rows:
    data, own, config = training_set(quick), DEFAULTS["o2o"], TrainingConfig(seed=seed)
    rows: dict[str, dict[str, float]] = {}
    for name, origin in list(CUTS.items())[-2 if quick else 0 :]:
        then = as_of(data, origin)
        model, _, corrections = fit_model(then, own, config)
        plain = uncalibrated(model, corrections)
        rows[f"{name}: {PLAIN}"] = figures(plain, then)
        rows[f"{name}: {DEFAULT}"] = figures(model, then) | beside(model, plain, then)
        model, _, _ = fit_model(then, replace(own, calibration=VALIDATION), config)
        rows[f"{name}: {LAST_WEEK}"] = figures(model, then) | beside(model, plain, then)
    known = as_of(data, CUTS[FORTNIGHT], label_delay_days=LABEL_DELAY_DAYS)
    model, _, _ = fit_model(known, own, config)
    rows[f"{FORTNIGHT}: {KNOWN}"] = figures(model, known)
    return rows


def reading(found: Summary) -> str:
    cuts = [row.split(":")[0] for row in found.rows if row.endswith(f": {PLAIN}")]

    def at_cuts(name: str, column: str) -> list[float]:
        return [found.cell(f"{cut}: {name}", column).value for cut in cuts]

    bounds = zip(at_cuts(DEFAULT, "known, low"), at_cuts(DEFAULT, "known, high"), strict=True)
    unsure = sum(low <= 0 <= high for low, high in bounds)
    identified = sum(at_cut > 0 for at_cut in at_cuts(DEFAULT, "log's slope, low"))
    return (
        f"The log identifies the effect of the value at {identified} of {len(cuts)} cuts; elsewhere curves are flat. "
        "On merchants with a row before the cut, the interval of the error of the default's mean prediction contains 0 "
        f"at {unsure} of {len(cuts)} cuts."
    )


TABLE = Table(
    title="Coupons: boosted trees by rolling origin",
    source="LightGBM on the same columns beside the default of the data set",
    data="296,356 real coupon receipts; each cut trains on the receipts before it and judges the week after it, the "
    "last one the fortnight of 18–31 May 2016, on which nothing was chosen; intervals are over users and merchants",
    run=run,
    reading=reading,
    primary=Primary("log loss", f"{FORTNIGHT}: {DEFAULT}", f"{FORTNIGHT}: {LAST_WEEK}", effect=0.002, spread=0.001),
    compare=[
        *((column, f"{FORTNIGHT}: {DEFAULT}", f"{FORTNIGHT}: {PLAIN}") for column in ("AUC", "log loss")),
        ("AUC", f"{FORTNIGHT}: {DEFAULT}", f"{FORTNIGHT}: {LAST_WEEK}"),
    ],
    fewer_is_better=["log loss", "reversed pairs"],
    also=(POINTS, "error, known merchants", *(f"{cut}: {name}" for cut in CUTS for name in (PLAIN, LAST_WEEK))),
    seeds=1,
    missing=needs_file("o2o_coupon", LABELED_FILE),
)
