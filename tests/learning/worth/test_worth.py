"""Worth by the rows of a training set: which rows learn, which find the price, and which judge."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.allocation import Problem, Resource, solve
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.learning.training_set import TrainingSet
from shadowprice.learning.worth.find import find_worth
from shadowprice.learning.worth.judge import Terms as Conditions
from shadowprice.learning.worth.judge import judge
from shadowprice.learning.worth.stages import earlier_stages
from shadowprice.limits import Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.history import Traffic
from shadowprice.responses.inputs import Inputs
from shadowprice.storage import from_json, to_json

LEVELS = np.array([0, 20, 50, 100])
ACCOUNTS, EACH = 3000, 2
CAMPAIGN = Campaign(
    name="c",
    sides={"customer": Terms(levels=(0, 20, 50, 100), cost_basis="on_grant")},
    budget=Budget(limit=20_000),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    exploration=0.1,
)
REQUESTS = {"customer": 1000.0}
SHARES = (0.0, 0.5, 1.0, 2.0)


class Model:
    """Known curves of each account, and the accounts that it has learned from."""

    def __init__(self, truth: np.ndarray, learned: frozenset[str], levels: np.ndarray = LEVELS) -> None:
        self.truth, self.learned, self.levels = truth, learned, levels
        self.asked: list[frozenset[str]] = []

    def curves(self, snapshots, frames: Mapping[str, pd.DataFrame]) -> dict[str, Curves]:
        found = {}
        for side, frame in frames.items():
            self.asked.append(frozenset(frame["account_id"]))
            place = frame["account_id"].str.removeprefix("a").astype(int).to_numpy()
            found[side] = Curves(self.levels, self.truth[:, place].astype(np.float32))
        return found


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    reach = np.exp(1.5 * np.random.default_rng(0).normal(size=ACCOUNTS))
    return np.asarray(0.1 + 0.6 * (1 - np.exp(-reach * LEVELS[:, None] / 60)))


@pytest.fixture(scope="module")
def data(truth: np.ndarray) -> TrainingSet:
    """Two requests of each account, levels drawn evenly; an account is in one split."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(ACCOUNTS), EACH)
    level = rng.integers(0, 4, who.size)
    split = rng.choice(["train", "validation", "test"], ACCOUNTS, p=[0.7, 0.15, 0.15])
    rows = pd.DataFrame(
        {
            "account_id": np.char.add("a", who.astype(str)),
            "partner_id": None,
            "level": level,
            "response": (rng.random(who.size) < truth[level, who]).astype(float),
            "propensity": 0.25,
            "weight": 1.0,
            "snapshot_at": 0.0,
            "x_age": rng.integers(10, 60, ACCOUNTS)[who],
            "split": split[who],
        }
    )
    return TrainingSet({"customer": rows}, {}, Inputs(), {"customer": (0, 20, 50, 100)}, {"customer": ()})


def conditions(campaign: Campaign = CAMPAIGN, attributes: Attributes | None = None) -> Conditions:
    coverage = campaign.coverage({} if attributes is None else {"customer": attributes})
    return Conditions(campaign, REQUESTS, coverage, Traffic({}, {}))


def true_rows(truth: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "account_id": np.repeat([f"a{n}" for n in range(ACCOUNTS)], 4),
            "side": "customer",
            "level": np.tile(np.arange(4), ACCOUNTS),
            "response": truth.T.ravel(),
        }
    )


def test_no_account_judges_a_model_that_it_or_a_later_one_has_taught(data: TrainingSet, truth: np.ndarray) -> None:
    models: list[Model] = []

    def fit(then: TrainingSet) -> Model:
        rows = then.rows["customer"]
        models.append(Model(truth, frozenset(rows.loc[rows["split"] != "test", "account_id"])))
        return models[-1]

    rows = data.rows["customer"]
    served = Model(truth, frozenset(rows.loc[rows["split"] != "test", "account_id"]))
    found = find_worth(served, data, conditions(), fit=fit, shares=SHARES).worth
    assert found.stages == 3
    judged: list[frozenset[str]] = []
    for model in (*models, served):
        before, own, correcting = model.asked
        assert before <= correcting <= model.learned
        assert not own & model.learned
        assert all(not own & other for other in judged)
        judged.append(own)
        assert all(other <= model.learned for other in judged[:-1])
    assert found.accounts["customer"] == sum(map(len, judged)) > 0.6 * ACCOUNTS
    assert found.rows["customer"] == EACH * found.accounts["customer"]


def test_all_rows_of_an_account_are_in_one_part_of_each_stage(data: TrainingSet) -> None:
    stages = list(earlier_stages(data))
    assert len(stages) == 2
    for then in stages:
        rows = then.rows["customer"]
        assert rows.groupby("account_id")["split"].nunique().max() == 1
        assert set(rows["split"]) == {"train", "validation", "test"}
        assert not set(rows["account_id"]) & set(data.part("test")["customer"]["account_id"])
    sizes = [len(then.part("train")["customer"]) for then in stages]
    assert sizes[0] < sizes[1] < len(data.part("train")["customer"])


def test_the_price_is_that_of_the_validation_rows_whatever_the_judged_ones_are(
    data: TrainingSet, truth: np.ndarray
) -> None:
    stage = judge(Model(truth, frozenset()), data, conditions(), SHARES)
    held_out = data.part("validation")["customer"]["account_id"].str.removeprefix("a").astype(int).to_numpy()
    own = data.part("test")["customer"]["account_id"].str.removeprefix("a").astype(int).to_numpy()
    paid = np.broadcast_to(LEVELS[:, None], (4, held_out.size)).astype(float)
    value = truth[:, held_out].astype(np.float32)
    for share, chosen in zip(SHARES[1:], stage.rows["customer"].chosen[1:], strict=True):
        limit = share * CAMPAIGN.budget.limit * held_out.size / REQUESTS["customer"]
        price = solve(Problem(value, [Resource.total("money", paid, limit)])).prices[0]
        score = truth[:, own].astype(np.float32) - price * LEVELS[:, None]
        assert (chosen == score.argmax(axis=0)).mean() > 0.99
    assert not stage.rows["customer"].chosen[0].any()


def test_the_estimate_holds_the_truth_and_is_stored_as_it_is(data: TrainingSet, truth: np.ndarray) -> None:
    served = Model(truth, frozenset())
    found = find_worth(served, data, conditions(), fit=lambda _: served, truth=true_rows(truth), shares=SHARES)
    for point in found.worth.points[1:]:
        assert point.lowest.low <= point.true_lowest <= point.lowest.high
        assert point.flat.low <= point.true_flat <= point.flat.high
    now = found.worth.at(1.0)
    assert now.true_flat > 0
    assert now.cost.value == pytest.approx(CAMPAIGN.budget.limit, rel=0.1)
    assert now.effective_rows["customer"] == pytest.approx(found.worth.rows["customer"] / 4, rel=0.2)
    assert from_json(type(found), to_json(found)) == found


def test_rules_hold_for_the_policy_and_for_the_flat_mixture(data: TrainingSet, truth: np.ndarray) -> None:
    rules = (
        Rule(name="one-level", expression="account.x_age >= 18 && offer.level != 1"),
        Rule(name="nothing", expression="account.x_age < 18"),
    )
    campaign = replace(CAMPAIGN, rules=rules)
    rows = data.rows["customer"].drop_duplicates("account_id")
    columns = Attributes.of(rows["account_id"].tolist(), {"x_age": rows["x_age"].tolist()})
    served = Model(truth, frozenset())
    found = find_worth(served, data, conditions(campaign, columns), shares=SHARES).worth
    adults = data.part("test")["customer"]["x_age"] >= 18
    assert found.rows["customer"] == int(adults.sum())
    for point in found.points:
        assert point.flat.value == pytest.approx(0.0, abs=1e-9)
        assert point.cost.value == pytest.approx(20.0 * REQUESTS["customer"] * adults.mean(), rel=0.15)


def test_rows_without_propensities_are_told(data: TrainingSet, truth: np.ndarray) -> None:
    unknown = replace(data, rows={"customer": data.rows["customer"].assign(propensity=np.nan)})
    found = find_worth(Model(truth, frozenset()), unknown, conditions(), shares=SHARES)
    assert found.worth is None
    assert "log propensities" in found.absent


def test_a_budget_that_pays_for_no_request_buys_the_cheapest_levels(data: TrainingSet, truth: np.ndarray) -> None:
    terms = {"customer": Terms(levels=(5, 20, 50, 100), cost_basis="on_grant")}
    campaign = replace(CAMPAIGN, sides=terms, budget=Budget(limit=1_000))
    model = Model(truth, frozenset(), levels=np.array([5, 20, 50, 100]))
    stage = judge(model, data, conditions(campaign), (0.0, 1.0))
    assert not stage.rows["customer"].chosen.any()
