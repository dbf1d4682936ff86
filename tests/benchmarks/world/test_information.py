"""The best curves by information: closed form against the generator, and the order of what is known."""

import numpy as np
import pytest

from benchmarks.world.information import (
    FULL,
    MEANS,
    NEAR,
    OWN,
    TRUTH,
    Belief,
    curves_by_information,
    information,
)
from shadowprice.datasets.world import WorldOptions, generator
from shadowprice.datasets.world.graph import draw_graph

OPTIONS = WorldOptions(customers=4000, merchants=1000, both=100, ties=7.0, rho=1.5, noise=1.2)
GRAPH = draw_graph(OPTIONS, generator(5))
BELIEFS = information(GRAPH, OPTIONS)
STRENGTH = GRAPH.influence(OPTIONS.rho)


@pytest.mark.parametrize("name", [OWN, MEANS, NEAR, FULL])
def test_the_stated_variance_is_the_error_that_is_made(name: str) -> None:
    """The generator's own strengths lie around the mean as far as the covariance states, for customers."""
    belief, strength = BELIEFS[name].take(GRAPH.customers), STRENGTH[GRAPH.customers]
    error = strength - belief.mean
    ratio = (error**2).mean(axis=0) / np.einsum("nii->ni", belief.covariance).mean(axis=0)
    np.testing.assert_allclose(ratio, 1.0, atol=0.1)
    # An unbiased mean: nothing of it is left in the error.
    slope = (error * belief.mean).sum() / (belief.mean**2).sum()
    assert abs(slope) < 0.05


def test_with_features_free_of_noise_the_whole_graph_gives_the_strengths_themselves() -> None:
    options = WorldOptions(customers=600, merchants=150, both=15, noise=1e-4)
    graph = draw_graph(options, generator(1))
    belief = information(graph, options)[FULL]
    np.testing.assert_allclose(belief.mean, graph.influence(options.rho), atol=1e-2)
    assert belief.covariance.max() < 1e-4


def test_each_step_of_information_explains_more() -> None:
    strength = STRENGTH[GRAPH.customers]
    error = [
        ((strength - BELIEFS[name].take(GRAPH.customers).mean) ** 2).mean() for name in (OWN, MEANS, NEAR, FULL, TRUTH)
    ]
    values = 1.0 - np.array(error) / strength.var(axis=0).mean()
    assert np.all(np.diff(values) > 0.02)
    assert values[-1] == 1.0


def test_without_influence_the_graph_adds_nothing_to_the_own_features() -> None:
    options = WorldOptions(customers=600, merchants=150, both=15, rho=0.0)
    _, curves = curves_by_information(options, 2)
    for name in (MEANS, NEAR, FULL):
        np.testing.assert_allclose(curves[name], curves[OWN], atol=1e-9)


def test_the_mean_response_is_that_of_draws_from_the_law() -> None:
    random = np.random.default_rng(0)
    mean, root = np.array([[0.3, -0.5]]), np.array([[0.7, 0.0], [0.2, 0.5]])
    for options in (WorldOptions(), WorldOptions(own_change_point=True)):
        drawn = options.respond(mean + random.normal(size=(400_000, 2)) @ root.T).mean(axis=1)
        found = Belief(mean, (root @ root.T)[None]).response(options)[:, 0]
        np.testing.assert_allclose(found, drawn, atol=3e-3)
