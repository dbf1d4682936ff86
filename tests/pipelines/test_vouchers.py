"""The pipeline of vouchers: it compiles, and what its steps publish is read back by what serves it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.steps import STEPS
from feature_repo.resolve import Solver
from feature_repo.vouchers import publish_vouchers
from feature_repo.workspace import read_campaign
from serving.bundle import load_bundle
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.learning import vouchers as steps
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

BUDGET, REQUESTS = 35_000, 500


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the functions behind the pipeline's steps leave, one after the other."""
    root = tmp_path_factory.mktemp("vouchers")
    places = ("sessions", "graphs", "model", "bundle", "solved")
    sessions, graphs, model, bundle, solved = (root / name for name in places)
    steps.prepare(sessions, "", "", 0, {"sessions": 300})
    facts = steps.build(sessions, graphs)
    assert facts["sessions"] == 300
    asked = {"sessions": str(sessions), "graphs": str(graphs), "model": str(model), "figures": str(root / "figures")}
    STEPS["train-vouchers"](**asked, recipe="dmbgn", epochs=2, seed=0)
    assert set(json.loads((root / "figures").read_text())) == {"validation_loss", "epochs"}
    assert 0 < steps.evaluate(sessions, graphs, model)["auc"] < 1
    steps.store_curves(sessions, graphs, model, bundle, {})
    asked = {"bundle": str(bundle), "price": str(solved), "workspace": str(root / "run"), "campaign": "vouchers"}
    STEPS["solve-vouchers"](**asked, budget=BUDGET, requests=REQUESTS)
    # A step that was stopped is tried again: the same price is published once.
    assert [publish_vouchers(bundle, solved, root / "run") for _ in range(2)] == [1, 1]
    return root / "run"


def stored(workspace: Path) -> Curves:
    campaign = read_campaign(workspace)
    head = load_bundle(workspace / "model", campaign).heads["customer"]
    embedding = np.stack(pd.read_parquet(workspace / "model" / EMBEDDINGS)["embedding"].to_numpy())
    return Curves(head.levels, head.response(embedding.astype(np.float32)))


@pytest.mark.timeout(500)
def test_the_predictor_loads_the_curves_of_offers_of_equal_amounts(workspace: Path) -> None:
    curves = stored(workspace)
    offers = json.loads((workspace / "model" / "model.json").read_text())["offers"]
    assert len(offers) == curves.levels.size == 8
    assert np.all(np.diff(curves.levels) >= 0)
    assert curves.accounts > 50
    assert np.ptp(curves.response, axis=1).min() > 0, "people differ at every voucher"


@pytest.mark.timeout(500)
def test_the_published_price_is_that_of_the_same_solve_and_spends_the_budget(workspace: Path) -> None:
    curves = stored(workspace)
    record = PriceStore(workspace / "prices").latest("vouchers", verified_only=True)
    assert isinstance(record, PriceRecord)
    assert record.status == "optimal"
    assert abs(record.gap) <= 1e-6
    assert record.violation <= 1e-9
    limit = BUDGET * curves.accounts / REQUESTS
    problem = Problem(curves.response, [Resource.total("budget", on_response(curves.levels), limit)])
    again = solve(problem)
    assert record.prices["budget"] == pytest.approx(again.prices[0], rel=1e-5)
    cost = curves.levels[:, None] * curves.response
    ids = [f"r{i}" for i in range(curves.accounts)]
    chosen = decide(curves.response, cost, again.prices, again.tie_share, ids).level
    spent = float(cost[chosen, np.arange(curves.accounts)].sum())
    assert spent == pytest.approx(limit, rel=0.05)


@pytest.mark.timeout(500)
def test_the_online_store_gives_the_stored_curves_back(workspace: Path) -> None:
    accounts = pd.read_parquet(workspace / "model" / EMBEDDINGS)["account_id"].to_numpy(dtype=str)
    found = Solver(workspace).curves("customer", np.append(accounts, "nobody"))
    expected = stored(workspace).response
    np.testing.assert_allclose(found.response[:, :-1], expected, atol=1e-7)
    np.testing.assert_allclose(found.response[:, -1], expected.mean(axis=1), atol=1e-5)
