"""S0's claim on known truth: the joint graph network beats DNN-H beats DNN, because of the graph."""

import numpy as np
import pytest

from shadowprice.learning.evaluate import Evaluation, Facts, evaluate
from shadowprice.learning.train import train
from shadowprice.responses.training import TrainingConfig

SEEDS = range(1)
"""The results page ``s0_graph`` has more seeds, with intervals."""
SIZE = {"customers": 2500, "merchants": 600, "both": 60}


def judge(make_set, recipe: str, seed: int, **options) -> Evaluation:
    dataset, data = make_set("world", seed, **SIZE, **options)
    model, _ = train(data, recipe, TrainingConfig(seed=seed), report=lambda row: None)
    return evaluate(model, data, facts=Facts(truth=dataset.truth), replications=2)


@pytest.fixture(scope="module")
def found(make_set) -> dict[str, list[Evaluation]]:
    return {
        recipe: [judge(make_set, recipe, seed) for seed in SEEDS]
        for recipe in ("joint_gnn", "joint_dnn_h", "joint_dnn")
    }


def over_seeds(found: list[Evaluation], metric: str) -> list[float]:
    side, name = metric.split("_", 1)
    return [each.sides[side].metrics[name].value for each in found]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("better", "worse"), [("joint_gnn", "joint_dnn_h"), ("joint_dnn_h", "joint_dnn")])
def test_it_ranks_customers_better(found, better: str, worse: str) -> None:
    difference = np.subtract(over_seeds(found[better], "customer_auc"), over_seeds(found[worse], "customer_auc"))
    assert (difference > 0).all(), difference


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("better", "worse"), [("joint_gnn", "joint_dnn_h"), ("joint_dnn_h", "joint_dnn")])
def test_its_squared_error_is_smaller(found, better: str, worse: str) -> None:
    difference = np.subtract(over_seeds(found[better], "customer_mse"), over_seeds(found[worse], "customer_mse"))
    assert (difference < 0).all(), difference


@pytest.mark.timeout(1500)
def test_the_hazard_report_finds_both_change_points(found) -> None:
    points = [each.sides["customer"].change_points.at.tolist() for each in found["joint_gnn"]]
    assert all({80, 100} <= set(found) for found in points), points
    assert np.mean([len(found) for found in points]) < 3


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("options", [{"rho": 0.0}, {"shuffle": True}], ids=["rho 0", "shuffled edges"])
def test_without_influence_along_the_edges_the_advantage_is_gone(make_set, found, options) -> None:
    graph = judge(make_set, "joint_gnn", 0, **options)
    # A network without edges learns the same from shuffled ones.
    plain = found["joint_dnn"][0] if options.get("shuffle") else judge(make_set, "joint_dnn", 0, **options)
    [left] = np.subtract(over_seeds([graph], "customer_auc"), over_seeds([plain], "customer_auc"))
    full = np.mean(np.subtract(*(over_seeds(found[recipe], "customer_auc") for recipe in ("joint_gnn", "joint_dnn"))))
    assert left < 0.25 * full, (left, full)
