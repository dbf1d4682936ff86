"""Partition of a graph into groups of neighbors of limited size: units of a trial whose effects spill over."""

from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.tables.database import Tables, instant

_END: dict[Side, str] = {"customer": "src", "merchant": "dst"}


def members(tables: Tables, side: Side, at: datetime, until: datetime | None) -> NDArray[np.str_]:
    """Return the accounts of a side that are in the snapshot of an instant, sorted.

    Of the accounts profiled by then they are those that were profiled last, those with a tie by then to another
    profiled account, and those that ask, or are asked about, before the next snapshot.

    Args:
        tables: of which ``account``, ``edge`` and ``exposure`` are read.
        side: whose accounts.
        at: the instant.
        until: the instant of the next snapshot; None: there is none.

    Complexity: O(n log n) in the rows of the tables.
    """
    before = f"AND decided_at < {instant(until)}" if until else ""
    query = f"""
        WITH profile AS (
            SELECT account_id, side, max(snapshot_ts) AS newest FROM account WHERE snapshot_ts <= {instant(at)}
            GROUP BY account_id, side
        ), own AS (
            SELECT account_id, newest FROM profile WHERE side = '{side}'
        ), tie AS (
            SELECT src, dst FROM edge WHERE ts <= {instant(at)}
            AND src IN (SELECT account_id FROM profile WHERE side = 'customer')
            AND dst IN (SELECT account_id FROM profile WHERE side = 'merchant')
        ), asked AS (
            SELECT * FROM exposure WHERE decided_at >= {instant(at)} {before}
        )
        SELECT account_id FROM own WHERE newest = (SELECT max(newest) FROM own) OR account_id IN (
            SELECT {_END[side]} FROM tie
            UNION ALL SELECT account_id FROM asked WHERE side = '{side}'
            UNION ALL SELECT partner_id FROM asked WHERE side <> '{side}' AND partner_id IS NOT NULL
        ) ORDER BY account_id"""
    with tables.connect() as db:
        return np.asarray(db.sql(query).to_arrow_table()["account_id"].to_numpy(), dtype=np.str_)


ROUNDS = 30


def communities(
    edge_index: NDArray[np.integer], nodes: int, most: int, *, weight: NDArray[np.floating] | None = None, seed: int = 0
) -> NDArray[np.int64]:
    """Return the group of each node, (N,), 0, 1, … by size of the groups' first nodes.

    Each node begins alone. In each round every node, in random order, moves to the group that most of its ties lead to,
    if the group has room. So connected parts that fit become one group, and larger ones are cut where ties are few.

    Args:
        edge_index: (2, E), ends of the ties.
        nodes: N.
        most: accounts of one group, at most.
        weight: (E,) of the ties; 1 each by default.
        seed: of the order.

    Complexity: O(rounds · (N + E)), at most 30 rounds.

    Source: Raghavan, Albert and Kumara (2007), label propagation, with a limit of size (Ugander and Backstrom, 2013).

    Example:
        >>> communities(np.array([[0, 1, 3], [1, 2, 4]]), 5, 3).tolist()
        [0, 0, 0, 1, 1]
    """
    require(most >= 1, "most", "must be at least 1")
    source, target = (np.asarray(ends, dtype=np.int64) for ends in edge_index)
    value = np.ones(source.size) if weight is None else np.asarray(weight, dtype=np.float64)
    ties = sparse.csr_array((value, (source, target)), shape=(nodes, nodes))
    ties = sparse.csr_array(ties + ties.T)
    random = np.random.default_rng(seed)
    # A node has few ties, for which plain lists are quicker than arrays.
    group, size, start = list(range(nodes)), [1] * nodes, ties.indptr.tolist()
    for _ in range(ROUNDS):
        moved = 0
        for node in random.permutation(nodes).tolist():
            near = slice(start[node], start[node + 1])
            pull: dict[int, float] = {}
            for other, strength in zip(ties.indices[near].tolist(), ties.data[near].tolist(), strict=True):
                pull[group[other]] = pull.get(group[other], 0.0) + strength
            best = own = group[node]
            strongest = pull.get(own, 0.0)
            for label, attraction in pull.items():
                first = attraction == strongest and best != own and label < best
                if (attraction > strongest or first) and size[label] < most:
                    best, strongest = label, attraction
            if best != own:
                size[own] -= 1
                size[best] += 1
                group[node] = best
                moved += 1
        if not moved:
            break
    return _in_order(np.array(group, dtype=np.int64))


def _in_order(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the groups by their first node."""
    _, first, place = np.unique(group, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[place]


def cut_share(edge_index: NDArray[np.integer], group: NDArray[np.integer]) -> float:
    """Return the share of ties whose ends are in two groups: what a trial by groups still lets spill over."""
    ends = group[np.asarray(edge_index)]
    return float(np.mean(ends[0] != ends[1])) if ends.size else 0.0
