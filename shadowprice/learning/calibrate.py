"""Calibration of a trained model on its validation split or by rolling origin, and removal of the correction."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from shadowprice.campaign import Side
from shadowprice.evaluation.statistics.windows import DAY, WEEK
from shadowprice.learning.rolling import Origin, as_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.calibration import Offset, agreed
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import SidedModel

PAST_WEEKS = 4
"""Weeks that are predicted from the rows before them, at most; each costs one training."""


def calibrate(model: SidedModel, data: TrainingSet) -> dict[Side, float]:
    """Correct the overall level of each side's response on the validation split, and return the corrections.

    The validation split is the latest labeled data before the test, so the correction also follows a drift.
    """
    return model.calibrate(data.inputs, data.part("validation"))


def calibrate_by_weeks(
    model: SeparateModels, data: TrainingSet, fit: Callable[[TrainingSet], SeparateModels]
) -> dict[Side, float]:
    """Correct each side's response by the offset that past weeks agree on, and return the corrections.

    Each of the last weeks before the test is predicted by a model trained on the rows before it. The correction is
    the end nearer to 0 of the interval of the weeks' mean offset (:func:`~shadowprice.responses.calibration.agreed`):
    where weeks disagree it is 0, because the next week may differ from the last one as they did. Errors are clustered
    by partner where requests name one, else by account.

    Args:
        model: trained on all rows before the test; it needs no rows kept aside.
        data: its training set.
        fit: trains a model on all rows before the test of a training set.
    """
    offsets: dict[Side, list[Offset]] = {side: [] for side in data.rows}
    groups: dict[Side, list[np.ndarray]] = {side: [] for side in data.rows}
    for origin in past_weeks(data):
        then = as_of(_learnable(data), origin, hold_out_days=0)
        week = then.part("test")
        for side, offset in fit(then).offsets(then.inputs, week).items():
            offsets[side].append(offset)
            key = "partner_id" if data.partner(side) else "account_id"
            groups[side].append(week[side][key].astype(str).to_numpy(dtype=str))
    corrections = {side: agreed(offsets[side], groups[side]) for side in data.rows}
    for side, correction in corrections.items():
        model.correct(side, correction)
    return corrections


def past_weeks(data: TrainingSet) -> list[Origin]:
    """Cuts at the starts of the last weeks before the test, earliest first.

    Every side has a row a week before the cut or earlier, and one in the week after it.
    """
    decided = [frame["snapshot_at"].to_numpy(dtype=np.float64) for frame in _learnable(data).rows.values()]
    first = max(float(times.min(initial=np.inf)) for times in decided)
    last = max(float(times.max(initial=-np.inf)) for times in decided)
    end = datetime.fromtimestamp((last // DAY + 1) * DAY, UTC)
    week = timedelta(days=WEEK)
    weeks = [Origin(end - week * k, end - week * (k - 1)) for k in range(PAST_WEEKS, 0, -1)]
    return [
        origin
        for origin in weeks
        if origin.at.timestamp() - first >= WEEK * DAY
        and all(((rows >= origin.at.timestamp()) & (rows < origin.until.timestamp())).any() for rows in decided)
    ]


def uncalibrated(model: SidedModel, corrections: Mapping[Side, float]) -> SidedModel:
    """A copy of the model as it was before :func:`calibrate` and before any repair of its curves."""
    before = deepcopy(model.unrepaired())
    for side, correction in corrections.items():
        before.correct(side, -correction)
    return before


def _learnable(data: TrainingSet) -> TrainingSet:
    rows = {side: frame[frame["split"].isin(["train", "validation"])] for side, frame in data.rows.items()}
    return replace(data, rows=rows)
