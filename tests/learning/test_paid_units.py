"""What an evaluation says of merchants who bring more units than the campaign's terms pay for."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import evaluate
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.separate import SeparateModels

LEVELS = (20, 60)
SIZE = 600


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, SIZE)
    shops = [f"m{number}" for number in range(SIZE)]
    nodes = pd.DataFrame({"account_id": shops, "side": "merchant", "x_trait": rng.normal(size=SIZE)})
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshot = build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC"))
    rows = pd.DataFrame(
        {
            "account_id": shops,
            "partner_id": None,
            "level": level,
            "response": rng.poisson(4 * (0.5 + level)) / 4,
            "propensity": 0.5,
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": snapshot.at.timestamp() + 60.0,
        }
    )
    nobody = {"merchant": rows[["account_id"]].head(5)}
    return TrainingSet({"merchant": rows}, nobody, Inputs(snapshots=[snapshot]), {"merchant": LEVELS}, {"merchant": ()})


def test_the_share_of_the_units_that_is_paid_is_told_where_units_are_paid(data: TrainingSet) -> None:
    model = SeparateModels.prepare({"merchant": "linear"}, {"merchant": LEVELS})
    model.fit(data.inputs, data.part("train"))

    def found(terms: Terms | None) -> dict[str, float]:
        window = None
        if terms is not None:
            starts = datetime(2026, 1, 1, tzinfo=UTC)
            campaign = Campaign(name="c", sides={"merchant": terms}, budget=Budget(limit=10_000), starts_at=starts)
            window = CampaignWindow(campaign)
        metrics = evaluate(model, data, replications=2, window=window).sides["merchant"].metrics
        return {name: each.value for name, each in metrics.items()}

    units = data.rows["merchant"].query("split == 'test'")["response"]
    for most in (1, 2):
        shown = found(Terms(levels=LEVELS, most_units=most))["paid_units"]
        assert shown == pytest.approx(units.clip(upper=most).sum() / units.sum())
        assert 0.5 < shown < 1
    assert found(Terms(levels=LEVELS, most_units=100))["paid_units"] == 1
    assert "paid_units" not in found(Terms(levels=LEVELS, cost_basis="on_grant"))
    assert "paid_units" not in found(None)
