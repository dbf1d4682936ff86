import numpy as np
import pytest

from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.sampler import NeighbourSampler

NODES = 30


@pytest.fixture
def edges() -> np.ndarray:
    random = np.random.default_rng(0)
    pairs = np.unique(random.integers(0, NODES, size=(2, 200)), axis=1)
    return pairs[:, pairs[0] != pairs[1]]


def test_with_room_for_all_it_is_the_exact_two_hop_neighbourhood(edges: np.ndarray) -> None:
    seeds = np.array([4, 17])
    seen = NeighbourSampler(Adjacency.of(*edges, NODES)).sample(seeds, (99, 99), np.random.default_rng(1))
    near = set(edges[0, np.isin(edges[1], seeds)])
    far = set(edges[0, np.isin(edges[1], list(near | set(seeds)))])
    assert set(seen.nodes) == set(seeds) | near | far
    assert seen.nodes[:2].tolist() == [4, 17]
    assert np.unique(seen.nodes).size == seen.nodes.size
    np.testing.assert_array_equal(seen.nodes[seen.edge_index], edges[:, seen.edges])
    assert (seen.scale == 1).all()
    assert np.unique(seen.edges).size == seen.edges.size


def test_no_node_gets_more_edges_than_the_fan_out(edges: np.ndarray) -> None:
    seen = NeighbourSampler(Adjacency.of(*edges, NODES)).sample(np.arange(5), (3, 2), np.random.default_rng(1))
    count = np.bincount(seen.edge_index[1], minlength=seen.nodes.size)
    assert count[:5].max() <= 3
    assert count[5:].max() <= 2


def test_scaled_sums_over_the_sample_are_unbiased(edges: np.ndarray) -> None:
    value = np.random.default_rng(2).normal(size=NODES) + 3
    sampler, random = NeighbourSampler(Adjacency.of(*edges, NODES)), np.random.default_rng(3)
    seeds = np.arange(6)
    exact = np.array([value[edges[0, edges[1] == seed]].sum() for seed in seeds])
    sums = []
    for _ in range(4000):
        seen = sampler.sample(seeds, (2,), random)
        weight = seen.scale * value[seen.nodes[seen.edge_index[0]]]
        sums.append(np.bincount(seen.edge_index[1], weight, minlength=seen.nodes.size)[: seeds.size])
    error = np.mean(sums, axis=0) - exact
    assert (np.abs(error) < 4.5 * np.std(sums, axis=0) / np.sqrt(len(sums)) + 1e-9).all()


def test_a_node_without_edges_is_its_own_neighbourhood() -> None:
    seen = NeighbourSampler(Adjacency.of(np.array([0]), np.array([1]), 4)).sample(
        np.array([3, 2]), (5, 5), np.random.default_rng(0)
    )
    assert seen.nodes.tolist() == [3, 2]
    assert seen.edges.size == 0


def test_the_same_seed_gives_the_same_sample(edges: np.ndarray) -> None:
    sampler = NeighbourSampler(Adjacency.of(*edges, NODES))
    one, two = (sampler.sample(np.arange(4), (2, 2), np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.edges, two.edges)
