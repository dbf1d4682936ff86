"""Intervals of an evaluation are clustered by the partner that accounts share."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.evaluation import Interval, metrics
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.joint import AtBudget, Spending, at_budget
from shadowprice.evaluation.statistics.means import mean
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.partners import row_partners
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import Comparison, evaluate
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.separate import SeparateModels

LEVELS = (10, 50, 100)
SIZE, MERCHANTS = 3000, 30


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    """Customers whose response carries a large shock of the merchant that they pay most."""
    rng = np.random.default_rng(0)
    merchant = rng.integers(0, MERCHANTS, SIZE)
    level = rng.integers(0, 3, SIZE)
    logit = -2.5 + 0.5 * level + rng.normal(0, 1.5, MERCHANTS)[merchant]
    users, shops = [f"u{i}" for i in range(SIZE)], [f"m{i}" for i in range(MERCHANTS)]
    nodes = pd.DataFrame(
        {
            "account_id": users + shops,
            "side": ["customer"] * SIZE + ["merchant"] * MERCHANTS,
            "x_trait": rng.normal(size=SIZE + MERCHANTS),
        }
    )
    at = pd.Timestamp("2026-01-01", tz="UTC")
    paid = {"src": users, "dst": [shops[each] for each in merchant], "weight": 5.0, "ts": at}
    snapshot = build_snapshot(nodes, pd.DataFrame(paid), at)
    rows = pd.DataFrame(
        {
            "account_id": users,
            "partner_id": None,
            "level": level,
            "response": (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-logit))).astype(float),
            "propensity": 1 / 3,
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": at.timestamp() + 60.0,
        }
    )
    only = rows[["account_id"]].head(5)
    return TrainingSet(
        {"customer": rows}, {"customer": only}, Inputs(snapshots=[snapshot]), {"customer": LEVELS}, {"customer": ()}
    )


@pytest.fixture(scope="module")
def model(data) -> SeparateModels:
    made = SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS})
    made.fit(data.inputs, data.part("train"))
    return made


def width(estimate) -> float:
    return float(estimate.high - estimate.low)


def test_without_a_named_partner_every_interval_is_by_the_merchant_that_is_paid_most(data, model) -> None:
    terms = Terms(levels=LEVELS, cost_basis="on_grant")
    campaign = Campaign(
        name="spring",
        sides={"customer": terms},
        budget=Budget(form="per_account", limit=40.0),
        starts_at=datetime(2026, 2, 1, tzinfo=UTC),
    )
    found = evaluate(
        model, data, replications=150, window=CampaignWindow(campaign), against=Comparison(incumbent=model)
    )
    side, test = found.sides["customer"], data.part("test")
    frame, curves = test["customer"], model.curves(data.inputs, test)["customer"]
    y, level = frame["response"].to_numpy(), frame["level"].to_numpy()
    p = curves.response[level, np.arange(y.size)]
    merchant = row_partners(frame, "customer", data.snapshots)
    assert merchant is not None
    assert len(set(merchant)) == MERCHANTS
    by_merchant, by_account = (
        metrics.mse(y, p, interval=Interval(replications=150, cluster=each)) for each in (merchant, frame["account_id"])
    )
    assert side.metrics["mse"] == by_merchant
    assert width(by_merchant) > 1.5 * width(by_account)
    for j in range(3):
        expected = mean(y[level == j], cluster=merchant[level == j])
        assert (side.by_level.low[j], side.by_level.high[j]) == pytest.approx((expected.low, expected.high))
    assert side.data_slope is not None
    assert side.data_slope.clusters == MERCHANTS
    value, cost = terms.value(curves.response), terms.cost(curves.response)
    rows = RandomizedRows(
        level=level,
        value=terms.weight * y,
        cost=np.array(LEVELS)[level],
        propensity=frame["propensity"],
        account=merchant,
        expected_value=value,
        expected_cost=cost,
    )
    assert isinstance(found.value, AtBudget)
    own_rows, curves_of = {"customer": rows}, {"customer": (value, cost)}
    reference = at_budget(
        own_rows,
        curves_of,
        curves_of,
        spending=Spending(requests={"customer": 1.0}, budget=40.0),
        interval=Interval(replications=150),
    ).candidate
    own = found.value.candidate
    assert (own.low / y.size, own.high / y.size) == pytest.approx((reference.low, reference.high))


def test_a_partner_that_the_request_names_comes_before_the_one_of_the_graph(data) -> None:
    frame = data.part("test")["customer"].head(4).assign(partner_id=["m1", "m2", None, None])
    found = row_partners(frame, "customer", data.snapshots)
    graph = row_partners(frame.drop(columns="partner_id"), "customer", data.snapshots)
    assert found is not None
    assert graph is not None
    assert found.tolist() == ["m1", "m2", *graph[2:]]


def test_accounts_without_ties_are_clusters_of_their_own(data) -> None:
    frame = pd.DataFrame({"account_id": ["x", "y", "x"]})
    found = row_partners(frame, "customer", data.snapshots)
    assert found is not None
    assert found[0] == found[2] != found[1]
    assert row_partners(frame.assign(partner_id="m0"), "customer", data.snapshots) is None
