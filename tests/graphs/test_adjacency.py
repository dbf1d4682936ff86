import numpy as np

from shadowprice.graphs.adjacency import Adjacency


def test_edges_stand_by_their_target_in_their_order() -> None:
    random = np.random.default_rng(0)
    source, target = random.integers(0, 20, size=(2, 300))
    made = Adjacency.of(source, target, 25)
    assert made.nodes == 25
    for node in range(25):
        rows = slice(made.start[node], made.start[node + 1])
        assert made.edge[rows].tolist() == np.flatnonzero(target == node).tolist()
        assert made.source[rows].tolist() == source[target == node].tolist()


def test_graphs_side_by_side_are_one_with_numbers_that_go_on() -> None:
    random = np.random.default_rng(1)
    ends = [random.integers(0, 10, size=(2, 30)) for _ in range(3)]
    together = Adjacency.side_by_side([Adjacency.both_ways(part, 10) for part in ends])
    whole = Adjacency.both_ways(np.concatenate([part + 10 * k for k, part in enumerate(ends)], axis=1), 30)
    np.testing.assert_array_equal(together.start, whole.start)
    np.testing.assert_array_equal(together.source, whole.source)
    np.testing.assert_array_equal(together.edge, whole.edge)
