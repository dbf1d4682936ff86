"""Main partner of each account: the other end of its largest tie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.graphs.accounts import AccountIds
from shadowprice.graphs.snapshot import GraphSnapshot


def main_partner(snapshot: GraphSnapshot, account_id: AccountIds, side: Side) -> NDArray[np.int64]:
    """Node of the partner with the largest sum of payments, (n,); −1 without a tie.

    The node that stands first wins among equal sums.

    Args:
        snapshot: the graph.
        account_id: (n,) accounts of ``side``.
        side: end of the ties at which the accounts are.

    Complexity: O(E + k log k) for E ties, k of which are of the accounts.
    """
    own = SIDES.index(side)
    asked = snapshot.find(account_id)
    of_account = np.zeros(snapshot.nodes, dtype=np.bool_)
    of_account[asked[asked >= 0]] = True
    ties = np.flatnonzero(of_account[snapshot.edge_index[own]])
    node, other = snapshot.edge_index[own][ties], snapshot.edge_index[1 - own][ties]
    paid = snapshot.edge_features[ties, snapshot.edge_names.index("log_weight")]
    order = np.lexsort((other, -paid, node))
    node, other = node[order], other[order]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    # One entry more than there are nodes, for accounts that the snapshot does not know.
    partner = np.full(snapshot.nodes + 1, -1, dtype=np.int64)
    partner[node[first]] = other[first]
    return partner[asked]
