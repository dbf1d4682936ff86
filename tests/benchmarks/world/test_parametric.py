"""The generator's form with parameters to fit, against the generator itself."""

import numpy as np
import pytest
import torch

from benchmarks.world.parametric import Form, fitted_curves
from benchmarks.world.training_set import training_set
from shadowprice.datasets.truth import true_curves
from shadowprice.datasets.world import WorldOptions, customer_response, generator, merchant_response
from shadowprice.datasets.world.graph import draw_graph

SIZE = {"customers": 400, "merchants": 100, "both": 10}


@pytest.mark.parametrize("threshold", [False, True], ids=["linear", "threshold"])
def test_with_features_that_show_the_traits_the_form_at_the_true_parameters_is_the_generator(threshold: bool) -> None:
    options = WorldOptions(**SIZE, noise=1e-4)
    graph = draw_graph(options, generator(0))
    form = Form(graph, threshold)
    with torch.no_grad():
        at_truth = form.start(options.noise)
        for name in ("rest_customer", "rest_merchant", "cut"):
            at_truth[name] = torch.full_like(at_truth[name], 1e-9)
        strength = form.strength(at_truth).numpy()
        curves = {side: form.mean_response(at_truth, side).numpy() for side in form.members}
    truth = graph.influence(1.0, threshold)
    np.testing.assert_allclose(strength, truth, atol=1e-2)
    np.testing.assert_allclose(curves["customer"], customer_response(truth[graph.customers]), atol=1e-2)
    np.testing.assert_allclose(curves["merchant"], merchant_response(truth[graph.merchants]), atol=1e-2)


def test_the_fit_is_nearer_to_the_truth_than_one_curve_for_all() -> None:
    dataset, data = training_set("world", 3, **SIZE)
    graph = draw_graph(WorldOptions(**SIZE), generator(3))
    found = fitted_curves(graph, data, dataset.tables, threshold=False, noise=0.8)
    for side, curves in found.items():
        truth = true_curves(dataset.truth, side, data.serving[side]["account_id"], len(curves.levels))
        alike = truth.mean(axis=1, keepdims=True)
        assert ((curves.response - truth) ** 2).mean() < 0.5 * ((alike - truth) ** 2).mean()
