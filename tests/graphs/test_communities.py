"""Groups of neighbors: whole parts where they fit, planted groups where there are some, never too large."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from shadowprice.datasets.world import WorldOptions, generator
from shadowprice.datasets.world.graph import draw_graph
from shadowprice.errors import InvalidInput
from shadowprice.graphs.communities import communities, cut_share


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 12), st.data())
def test_no_group_is_too_large_and_none_holds_accounts_that_no_path_joins(nodes, most, data) -> None:
    ends = st.integers(0, nodes - 1)
    ties = np.array(data.draw(st.lists(st.tuples(ends, ends), max_size=80)), dtype=np.int64).reshape(-1, 2).T
    group = communities(ties, nodes, most)
    assert np.bincount(group).max() <= most
    assert sorted(set(group.tolist())) == list(range(group.max() + 1))
    joined = sparse.csr_array((np.ones(ties.shape[1]), (ties[0], ties[1])), shape=(nodes, nodes))
    _, part = sparse.csgraph.connected_components(joined, directed=False)
    assert all(len(set(part[group == each].tolist())) == 1 for each in range(group.max() + 1))


def test_planted_communities_are_found() -> None:
    options = WorldOptions(communities=20, customers=1500, merchants=400, both=0)
    graph = draw_graph(options, generator(0))
    planted = np.concatenate([np.arange(1500) % 20, np.arange(400) % 20])
    found = communities(graph.tie, len(graph.ids), 150)
    assert cut_share(graph.tie, found) < 1.5 * cut_share(graph.tie, planted)
    assert cut_share(graph.tie, planted) == pytest.approx(0.055, abs=0.015)


def test_ties_of_more_weight_hold_together() -> None:
    path = np.array([[0, 1, 2], [1, 2, 3]])
    group = communities(path, 4, 2, weight=np.array([5.0, 1.0, 5.0]))
    assert (group[0] == group[1], group[1] == group[2], group[2] == group[3]) == (True, False, True)


def test_a_group_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidInput, match="most"):
        communities(np.zeros((2, 0), dtype=np.int64), 3, 0)
