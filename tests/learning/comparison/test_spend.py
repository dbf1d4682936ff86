"""Spend of a model's policy by the rows that it has not learned from, against the truth and under rules."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.allocation.spend_ratio import spend_ratio
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.learning.comparison.spend import spend_of_model, unseen_splits
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits import Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.policy import Choices
from shadowprice.responses.inputs import Inputs

LEVELS = np.array([0, 200, 400, 1000])
ROWS = 16_000
PRICE = 8e-4
CAMPAIGN = Campaign(
    name="c",
    sides={"customer": Terms(levels=(0, 200, 400, 1000))},
    budget=Budget(limit=250_000),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    rules=(Rule(name="minors", expression="account.x_age < 18 && offer.incentive > 200"),),
)


class Model:
    """Curves that are right in the mean, and wrong on who responds without an incentive."""

    personal = True

    def __init__(self, curves: np.ndarray) -> None:
        self._curves = curves

    def curves(self, inputs: Inputs, frames: Mapping[str, pd.DataFrame]) -> dict[str, Curves]:
        del inputs
        place = {side: frame["account_id"].str.removeprefix("a").astype(int) for side, frame in frames.items()}
        return {side: Curves(LEVELS, np.ascontiguousarray(self._curves[:, at])) for side, at in place.items()}

    def unrepaired(self) -> "Model":
        return self


@pytest.fixture(scope="module")
def trial() -> tuple[TrainingSet, np.ndarray, Model, np.ndarray]:
    rng = np.random.default_rng(0)
    start = np.clip(0.15 * rng.gamma(4, 0.25, ROWS), 0, 0.4)
    rise = 0.15 * rng.gamma(2, 0.5, ROWS) * (1 - np.exp(-LEVELS / 400))[:, None]
    truth = np.clip(start + rise, 0, 0.95)
    believed = np.clip(start * np.exp(0.7 * rng.normal(size=ROWS) - 0.245) + rise, 1e-4, 1).astype(np.float32)
    level = rng.integers(0, 4, ROWS)
    rows = pd.DataFrame(
        {
            "account_id": [f"a{row}" for row in range(ROWS)],
            "partner_id": None,
            "level": level,
            "response": (rng.random(ROWS) < truth[level, np.arange(ROWS)]).astype(float),
            "propensity": 0.25,
            "weight": 1.0,
            "snapshot_at": 0.0,
            "split": rng.choice(["train", "validation", "test"], ROWS, p=[0.4, 0.3, 0.3]),
        }
    )
    levels = {"customer": (0, 200, 400, 1000)}
    data = TrainingSet({"customer": rows}, {}, Inputs(), levels, {"customer": ()})
    return data, truth, Model(believed), rng.integers(10, 80, ROWS).astype(float)


def test_the_ratio_is_that_of_the_truth_where_rules_refuse_levels(trial) -> None:
    data, truth, model, age = trial
    names = data.rows["customer"]["account_id"].tolist()
    attributes = {"customer": Attributes.of(names, {"x_age": age})}
    coverage = CAMPAIGN.coverage(attributes)
    found = spend_of_model(model, data, CAMPAIGN, coverage, ("validation", "test"))
    assert found["customer"].rows == data.rows["customer"]["split"].isin(["validation", "test"]).sum()
    allowed = ~((age < 18) & (LEVELS[:, None] > 200))
    believed = model.curves(Inputs(), data.rows)["customer"].response.astype(float)
    columns, unit = np.arange(ROWS), LEVELS[:, None].astype(float)
    chosen = Choices(believed, unit * believed, allowed).decide([PRICE], 0.5, columns).level
    assert allowed[chosen, columns].all()
    true, expected = ((unit * curve)[chosen, columns].sum() for curve in (truth, believed))
    ratio = spend_ratio(found, {"customer": 1.0}, PRICE)
    assert true / expected > 1.1
    assert ratio.low <= true / expected <= ratio.high
    assert ratio.high - ratio.low < 0.2
    mean, _, error = found["customer"].at(PRICE)
    assert mean == pytest.approx(expected / ROWS, rel=0.03)
    assert 0 < error < 0.05 * mean


def test_nothing_is_estimated_without_rows_or_propensities(trial) -> None:
    data, _, model, _ = trial
    rows = data.rows["customer"]
    unknown = replace(data, rows={"customer": rows.drop(columns="propensity")})
    plain = replace(CAMPAIGN, rules=())
    assert spend_of_model(model, unknown, plain, None, ("test",)) == {}
    assert (
        spend_of_model(model, replace(data, rows={"customer": rows.assign(split="train")}), plain, None, ("test",))
        == {}
    )
    assert spend_of_model(model, data, plain, None, ()) == {}


def test_rows_that_a_model_has_learned_from_are_not_held_out() -> None:
    model, repaired, flat = (Model(np.zeros((4, 1))) for _ in range(3))
    repaired.unrepaired = lambda: model
    flat.personal = False
    assert unseen_splits(model, "", stopped=True) == ("validation", "test")
    assert unseen_splits(model, "", stopped=False) == ("test",)
    assert unseen_splits(repaired, "", stopped=True) == ("test",)
    assert unseen_splits(model, "sessions", stopped=True) == ()
    assert unseen_splits(flat, "", stopped=True) == ()
