"""A model replaces the one in use only when the trial shows that it brings more at equal spend."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Terms
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.gate import Limits
from shadowprice.graphs.snapshot import build_snapshot
from shadowprice.learning.evaluate import evaluate
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.separate import SeparateModels

LEVELS = (10, 50, 100)
TERMS = {"customer": Terms(levels=LEVELS, cost_basis="on_grant")}
SIZE = 9000


def trial(scrambled: bool = False) -> TrainingSet:
    """Accounts with a high trait respond to the level, others hardly; ``scrambled`` traits tell nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=SIZE)
    level = rng.integers(0, 3, SIZE)
    logit = -1.5 + np.array([0.0, 1.0, 2.0])[level] * 2 / (1 + np.exp(-4 * x))
    response = (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-logit))).astype(float)
    users = [f"u{i}" for i in range(SIZE)]
    trait = rng.permutation(x) if scrambled else x
    nodes = pd.DataFrame({"account_id": users, "side": "customer", "x_trait": trait})
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshot = build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC"))
    rows = pd.DataFrame(
        {
            "account_id": users,
            "partner_id": None,
            "level": level,
            "response": response,
            "propensity": 1 / 3,
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": snapshot.at.timestamp() + 60.0,
        }
    )
    return TrainingSet(
        {"customer": rows},
        {"customer": rows[["account_id"]].head(5)},
        [snapshot],
        {"customer": LEVELS},
        {"customer": ()},
    )


def fitted(data: TrainingSet) -> SeparateModels:
    model = SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS})
    model.fit(data.snapshots, data.part("train"))
    return model


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    return trial()


@pytest.fixture(scope="module")
def good(data) -> SeparateModels:
    return fitted(data)


@pytest.fixture(scope="module")
def bad() -> SeparateModels:
    return fitted(trial(scrambled=True))


def judged(model, data, incumbent, **options):
    return evaluate(model, data, replications=200, incumbent=incumbent, **{"terms": TERMS, **options})


def value_check(found):
    return next(each for each in found.gate.checks if "equal spend" in each.rule)


def test_it_is_promoted_over_one_that_knows_less_and_not_the_other_way(data, good, bad) -> None:
    better = judged(good, data, bad)
    assert value_check(better).passed
    assert better.against["customer"].difference.low > 0
    assert better.against["customer"].spend == pytest.approx(np.mean(LEVELS), rel=0.05)
    worse = judged(bad, data, good)
    assert not value_check(worse).passed
    assert not worse.gate.passed
    assert "above the incumbent's" in " ".join(worse.gate.reasons)
    assert "squared error not above" in " ".join(worse.gate.reasons)


def test_an_equal_model_is_not_shown_to_be_better_but_may_pass_with_a_margin(data, good) -> None:
    assert not value_check(judged(good, data, good)).passed
    assert value_check(judged(good, data, good, limits=Limits(value_margin=0.01))).passed


def test_without_an_incumbent_nothing_is_compared(data, good) -> None:
    found = evaluate(good, data, replications=50)
    assert not found.against
    assert all("equal spend" not in each.rule for each in found.gate.checks)


def test_what_cannot_be_compared_is_not_promoted_and_says_why(data, good, bad) -> None:
    rows = data.rows["customer"]
    unlogged = replace(data, rows={"customer": rows.drop(columns="propensity")})
    test = rows["split"] == "test"
    few = replace(data, rows={"customer": pd.concat([rows[~test], rows[test].head(120)])})
    other = SeparateModels.prepare({"customer": "gbdt"}, {"customer": (10, 50, 101)})
    other.fit(data.snapshots, data.part("train"))
    for set_, incumbent, words in (
        (unlogged, bad, "propensity"),
        (few, bad, "log more exploration"),
        (data, other, "other levels"),
        (data, SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS}), "cannot read these rows"),
    ):
        check = value_check(judged(good, set_, incumbent))
        assert not check.passed
        assert words in check.found


def test_asked_at_every_look_it_needs_more_rows_and_says_what_cannot_be_asked_so(data, good, bad) -> None:
    def check(model, set_, incumbent, **options):
        found = judged(model, set_, incumbent, looks="every", **options)
        return next(each for each in found.gate.checks if "every look" in each.rule or "equal spend" in each.rule)

    better = check(good, data, bad)
    assert "every look" in better.rule
    assert not better.passed, "3,000 rows tell at one look that it is better, not at all looks at once"
    allowed = Limits(value_margin=0.15)
    assert check(good, data, bad, limits=allowed).passed
    assert not check(bad, data, good, limits=allowed).passed
    rows = data.rows["customer"]
    test = rows["split"] == "test"
    rarer = replace(data, rows={"customer": rows.assign(propensity=np.where(test, 0.2, 1 / 3))})
    assert "not as the earlier ones" in check(good, rarer, bad).found
    assert "no earlier rows" in check(good, replace(data, rows={"customer": rows[test]}), bad).found
    with pytest.raises(InvalidInput, match="looks"):
        judged(good, data, bad, looks="daily")
