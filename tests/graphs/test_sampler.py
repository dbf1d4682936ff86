import numpy as np
import pytest

from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.sampler import NeighborSampler

NODES = 30


@pytest.fixture
def edges() -> np.ndarray:
    random = np.random.default_rng(0)
    pairs = np.unique(random.integers(0, NODES, size=(2, 200)), axis=1)
    return pairs[:, pairs[0] != pairs[1]]


def test_with_room_for_all_it_is_the_exact_two_hop_neighborhood(edges: np.ndarray) -> None:
    seeds = np.array([4, 17])
    seen = NeighborSampler(Adjacency.of(*edges, NODES)).sample(seeds, (99, 99), np.random.default_rng(1))
    near = set(edges[0, np.isin(edges[1], seeds)])
    far = set(edges[0, np.isin(edges[1], list(near | set(seeds)))])
    assert set(seen.nodes) == set(seeds) | near | far
    assert seen.nodes[:2].tolist() == [4, 17]
    assert np.unique(seen.nodes).size == seen.nodes.size
    np.testing.assert_array_equal(seen.nodes[seen.edge_index], edges[:, seen.edges])
    assert np.unique(seen.edges).size == seen.edges.size


def test_no_node_gets_more_edges_than_the_fan_out(edges: np.ndarray) -> None:
    seen = NeighborSampler(Adjacency.of(*edges, NODES)).sample(np.arange(5), (3, 2), np.random.default_rng(1))
    count = np.bincount(seen.edge_index[1], minlength=seen.nodes.size)
    assert count[:5].max() <= 3
    assert count[5:].max() <= 2


def test_a_weight_learned_on_sampled_sums_is_that_of_all_sums() -> None:
    """Least squares on what is kept finds the weight; on sums scaled up to stand for all edges, a part of it."""
    random, nodes, near, kept, weight = np.random.default_rng(2), 4000, 24, 6, 0.7
    target = np.repeat(np.arange(nodes), near)
    source = random.integers(0, nodes, target.size)
    value = random.normal(size=nodes)
    response = weight * np.bincount(target, value[source], nodes)
    seen = NeighborSampler(Adjacency.of(source, target, nodes)).sample(np.arange(nodes), (kept,), random)
    sums = np.bincount(seen.edge_index[1], value[seen.nodes[seen.edge_index[0]]], nodes)
    scaled = sums * near / kept

    def least_squares(read: np.ndarray) -> float:
        return float(read @ response / (read @ read))

    # The response varies by 0.7 * sqrt(18) about what is kept, of a deviation of sqrt(6), in 4,000 rows.
    assert least_squares(sums) == pytest.approx(weight, abs=4 * weight * np.sqrt(18 / 6 / nodes))
    assert least_squares(scaled) == pytest.approx(weight * kept / near, rel=0.15)


def test_a_node_without_edges_is_its_own_neighborhood() -> None:
    seen = NeighborSampler(Adjacency.of(np.array([0]), np.array([1]), 4)).sample(
        np.array([3, 2]), (5, 5), np.random.default_rng(0)
    )
    assert seen.nodes.tolist() == [3, 2]
    assert seen.edges.size == 0


def test_the_same_seed_gives_the_same_sample(edges: np.ndarray) -> None:
    sampler = NeighborSampler(Adjacency.of(*edges, NODES))
    one, two = (sampler.sample(np.arange(4), (2, 2), np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.edges, two.edges)
