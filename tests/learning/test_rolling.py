"""Rolling origin on generated weeks whose level and effect drift as planted."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.calibrate import calibrate_by_weeks, past_weeks
from shadowprice.learning.fit import fit_model
from shadowprice.learning.recipes import Training
from shadowprice.learning.rolling import Origin, as_markdown, as_of, origins, roll
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.training import TrainingConfig

LEVELS = (100, 500, 1000)
START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = 86400.0
CONFIG = TrainingConfig(epochs=1)


def weeks_of(
    offset: list[float], effect: list[float] | None = None, rows: int = 1500, seed: int = 0, shops: int = 40
) -> TrainingSet:
    """Weeks of ``rows`` requests: logits move by ``offset`` as a whole and by ``effect`` per level in each week.

    Shops that give more have customers who respond less. The last week is the test, the one before it validation.
    """
    rng = np.random.default_rng(seed)
    size = rows * len(offset)
    week = np.repeat(np.arange(len(offset)), rows)
    shop = rng.integers(0, shops, size)
    center = np.linspace(0, 2, shops)[shop]
    weight = np.exp(-1.5 * np.abs(np.arange(3)[:, None] - center))
    level = (rng.uniform(size=size) > np.cumsum(weight / weight.sum(axis=0), axis=0)).sum(axis=0)
    x = rng.normal(size=size)
    rise = np.array(effect or [0.0] * len(offset))[week] * level
    logit = np.linspace(0.5, -2.0, shops)[shop] + 0.8 * x + rise + np.array(offset)[week]
    users = [f"u{k}" for k in range(size)]
    nodes = pd.DataFrame(
        {
            "account_id": users + [f"s{k}" for k in range(shops)],
            "side": ["customer"] * size + ["merchant"] * shops,
            "x_trait": np.r_[x, np.linspace(-1, 1, shops)],
        }
    )
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    frame = pd.DataFrame(
        {
            "request_id": users,
            "account_id": users,
            "partner_id": [f"s{k}" for k in shop],
            "level": level,
            "response": (rng.uniform(size=size) < 1 / (1 + np.exp(-logit))).astype(float),
            "split": np.select([week == len(offset) - 1, week == len(offset) - 2], ["test", "validation"], "train"),
            "snapshot_at": START.timestamp() + week * 7 * DAY + rng.uniform(0, 7 * DAY, size),
        }
    )
    return TrainingSet(
        {"customer": frame},
        {"customer": frame[["account_id", "partner_id"]].head(50)},
        Inputs(snapshots=[build_snapshot(nodes, edges, pd.Timestamp(START))]),
        {"customer": LEVELS},
        {"customer": ()},
        {"customer": ("partner_id",)},
    )


class Constant(SeparateModels):
    """A model that predicts one probability for everybody."""

    def __init__(self, p: float) -> None:
        super().__init__({})
        self.p, self.models, self.corrections = p, {"customer": None}, {"customer": 0.0}  # type: ignore[dict-item]

    def _curves(self, snapshots, frames):
        hazard = -np.log1p(-self.p) * np.exp(self.corrections["customer"])
        return {side: (np.full((3, len(frame)), -np.expm1(-hazard)), None) for side, frame in frames.items()}

    def curves(self, snapshots, frames):
        return {side: Curves(LEVELS, each.astype(np.float32)) for side, (each, _) in self._curves(None, frames).items()}


def constant(p: float) -> Callable[[TrainingSet], Constant]:
    return lambda data: Constant(p)


def test_a_cut_trains_on_rows_before_it_and_judges_the_days_after_it() -> None:
    data = weeks_of([0.0] * 5, rows=300)
    at = START + timedelta(days=17)
    then = as_of(data, Origin(at, at + timedelta(days=4)), hold_out_days=3)
    parts = {name: then.part(name)["customer"]["snapshot_at"] for name in ("train", "validation", "test")}
    assert parts["train"].max() < at.timestamp() - 3 * DAY <= parts["validation"].min()
    assert parts["validation"].max() < at.timestamp() <= parts["test"].min()
    assert parts["test"].max() < at.timestamp() + 4 * DAY
    before = data.rows["customer"]["snapshot_at"] < at.timestamp()
    assert len(parts["train"]) + len(parts["validation"]) == before.sum()


def test_labels_that_were_not_known_at_the_cut_are_left_out() -> None:
    data = weeks_of([0.0] * 5, rows=300)
    at = START + timedelta(days=21)
    then = as_of(data, Origin(at, at + timedelta(days=7)), hold_out_days=4, label_delay_days=6)
    known = pd.concat([then.part("train")["customer"], then.part("validation")["customer"]])["snapshot_at"]
    assert known.max() < at.timestamp() - 6 * DAY
    assert known.min() < START.timestamp() + DAY


def test_what_is_planted_after_the_cut_is_seen_by_no_fit() -> None:
    data = weeks_of([0.0] * 5, rows=300)
    at = START + timedelta(days=21)
    rows = data.rows["customer"]
    planted = rows.assign(x_leak=np.where(rows["snapshot_at"] >= at.timestamp(), 1.0, 0.0))
    seen: list[float] = []

    def fit(then: TrainingSet) -> Constant:
        learned = pd.concat([then.part("train")["customer"], then.part("validation")["customer"]])
        seen.append(float(learned["x_leak"].max()))
        return Constant(0.2)

    cuts = roll(replace(data, rows={"customer": planted}), origins(at, at), fit)
    assert seen == [0.0]
    assert (
        cuts[0].sides["customer"].rows
        == (planted["x_leak"] == 1).sum() - (planted["snapshot_at"] >= at.timestamp() + 7 * DAY).sum()
    )


def test_every_cut_is_judged_by_the_responses_of_its_own_days() -> None:
    data = weeks_of([0.0, 0.0, 1.0, -1.0], rows=2000)
    cuts = roll(data, origins(START + timedelta(days=14), START + timedelta(days=21)), constant(0.2))
    rows = data.rows["customer"]
    for number, cut in enumerate(cuts, start=2):
        week = rows[(rows["snapshot_at"] - START.timestamp()) // (7 * DAY) == number]
        judged = cut.sides["customer"]
        assert judged.rows == len(week) == 2000
        assert judged.observed == pytest.approx(week["response"].mean())
        assert judged.predicted == pytest.approx(0.2, abs=1e-6)
        assert judged.auc == pytest.approx(0.5)
        assert judged.curve_slope == pytest.approx(0.0, abs=1e-12)
        assert judged.reversed_pairs == 0
        assert judged.inside
    lines = as_markdown(cuts).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| 2026-03-16 | 2026-03-23 | customer | 2000 | 0.2 |")


def test_an_offset_that_only_new_partners_have_is_told_apart() -> None:
    data = weeks_of([0.0] * 4, rows=2000)
    rows = data.rows["customer"]
    share = float(rows["response"].mean())
    last = (rows["snapshot_at"] >= START.timestamp() + 21 * DAY).to_numpy()
    known = np.flatnonzero(last)[:-500]
    new = np.flatnonzero(last)[-500:]
    rng = np.random.default_rng(1)
    response = rows["response"].to_numpy().copy()
    response[known] = rng.uniform(size=known.size) < share
    response[new] = rng.uniform(size=new.size) < share + 0.3
    partners = rows["partner_id"].to_numpy().copy()
    partners[new] = [f"new{k % 20}" for k in range(new.size)]
    changed = rows.assign(response=response, partner_id=partners)
    at = START + timedelta(days=21)
    (cut,) = roll(replace(data, rows={"customer": changed}), origins(at, at), constant(share))
    judged = cut.sides["customer"]
    assert judged.new_share == pytest.approx(0.25)
    assert judged.new_offset.value == pytest.approx(share - response[new].mean(), abs=1e-6)
    assert judged.new_offset.high < 0
    assert judged.offset.high < 0
    assert judged.known_offset.value == pytest.approx(share - response[known].mean(), abs=1e-6)
    assert judged.known_offset.low < 0 < judged.known_offset.high
    assert judged.offset.value == pytest.approx(judged.predicted - judged.observed)
    whole = (1 - judged.new_share) * judged.known_offset.value + judged.new_share * judged.new_offset.value
    assert judged.offset.value == pytest.approx(whole)


def test_rows_without_a_partner_count_as_known() -> None:
    data = weeks_of([0.0] * 4, rows=300)
    at = START + timedelta(days=21)
    alone = data.rows["customer"].assign(partner_id=None)
    (cut,) = roll(replace(data, rows={"customer": alone}), origins(at, at), constant(0.2))
    judged = cut.sides["customer"]
    assert judged.new_share == 0
    assert np.isnan(judged.new_offset.value)
    assert judged.known_offset == judged.offset


def test_bad_cuts_are_refused() -> None:
    data = weeks_of([0.0] * 3, rows=100)
    with pytest.raises(InvalidInput, match="time zone"):
        Origin(datetime(2026, 3, 2), START)
    with pytest.raises(InvalidInput, match="after the cut"):
        Origin(START, START)
    with pytest.raises(InvalidInput, match="no train row for the cut at 2026-03-04"):
        as_of(data, Origin(START + timedelta(days=2), START + timedelta(days=9)))
    with pytest.raises(InvalidInput, match="last"):
        origins(START, START - timedelta(days=1))
    with pytest.raises(InvalidInput, match="every_days"):
        origins(START, START, every_days=0)


def test_an_offset_that_weeks_agree_on_is_corrected() -> None:
    data = weeks_of([0.0] * 7, rows=1500)
    mean = data.rows["customer"]["response"].mean()
    model = Constant(0.5 * mean)
    found = calibrate_by_weeks(model, data, constant(0.5 * mean))["customer"]
    exact = np.log(np.log1p(-mean) / np.log1p(-0.5 * mean))
    assert 0.5 * exact < found < exact
    assert model.corrections["customer"] == found


def test_weeks_that_disagree_leave_the_model_as_it_is_where_the_last_week_would_change_it() -> None:
    data = weeks_of([0.0, 0.0, -0.6, 0.5, -0.4, 0.9, 0.0], rows=2000)
    mean = data.rows["customer"]["response"].mean()
    chased = Constant(mean).calibrate([], data.part("validation"))
    assert chased["customer"] > 0.2
    assert calibrate_by_weeks(Constant(mean), data, constant(mean)) == {"customer": 0.0}


def test_past_weeks_end_where_the_test_begins() -> None:
    data = weeks_of([0.0] * 5, rows=100)
    found = past_weeks(data)
    assert found[-1].until == START + timedelta(days=28)
    assert [each.at - START for each in found] == [timedelta(days=14), timedelta(days=21)]
    assert past_weeks(weeks_of([0.0] * 2, rows=100)) == []


def test_days_and_weeks_without_rows_do_not_stop_a_rolling_calibration() -> None:
    data = weeks_of([0.0] * 6, rows=100)
    rows = data.rows["customer"]
    day = (rows["snapshot_at"] - START.timestamp()) // DAY

    def without(closed: pd.Series) -> TrainingSet:
        return replace(data, rows={"customer": rows[~closed].reset_index(drop=True)})

    holiday, closed = without(day == 20), without((day >= 21) & (day < 28))
    assert past_weeks(holiday) == past_weeks(data)
    assert [each.at - START for each in past_weeks(closed)] == [timedelta(days=14), timedelta(days=28)]
    for each in (holiday, closed):
        assert set(calibrate_by_weeks(Constant(0.3), each, constant(0.3))) == {"customer"}
    late = replace(data, rows={**data.rows, "merchant": rows[day >= 13]})
    assert [each.at - START for each in past_weeks(late)] == [timedelta(days=21), timedelta(days=28)]


def test_rolling_calibration_trains_on_the_validation_rows_too() -> None:
    data = weeks_of([0.0] * 6, rows=800)
    model, result, corrections = fit_model(data, Training("gbdt", "effect+monotone", "rolling"), CONFIG)
    assert set(corrections) == {"customer"}
    assert np.isfinite(result.validation_loss)
    fitted = model.unrepaired().models["customer"].categories["partner_id"]  # type: ignore[attr-defined]
    assert len(fitted) == 40
    with pytest.raises(InvalidInput, match="two weeks"):
        fit_model(weeks_of([0.0] * 2, rows=100), Training("gbdt", calibration="rolling"), CONFIG)
    with pytest.raises(InvalidInput, match=r"^calibration: .*joint_gnn"):
        fit_model(data, Training("joint_gnn", calibration="rolling"), CONFIG)
    with pytest.raises(InvalidInput, match=r"^curve_repair: 'pooled'"):
        fit_model(data, Training("gbdt", "pooled", "rolling"), CONFIG)


def test_an_effect_that_changes_its_sign_from_week_to_week_leaves_curves_flat() -> None:
    data = weeks_of([0.0] * 7, [0.0, -0.9, 0.9, -0.9, 0.0, 1.8, 0.0], rows=1500)
    model, _, _ = fit_model(data, Training("gbdt", "effect+monotone", "rolling"), CONFIG)
    curves = model.curves(data.inputs, data.part("test"))["customer"].response
    assert np.ptp(curves, axis=0).max() < 1e-6
    told = model.describe()["sides"]["customer"]["repair"]["effect"]
    assert told["note"] == "the effect of the incentive is not identified by this log"
    steady = weeks_of([0.0] * 7, [0.8] * 7, rows=1500)
    model, _, _ = fit_model(steady, Training("gbdt", "effect+monotone", "rolling"), CONFIG)
    curves = model.curves(steady.inputs, steady.part("test"))["customer"].response.astype(float)
    logit = np.log(curves / (1 - curves))
    np.testing.assert_allclose((logit - logit[0]).mean(axis=1), [0.0, 0.8, 1.6], atol=0.3)
    assert model.describe()["sides"]["customer"]["repair"]["effect"]["identified"]
