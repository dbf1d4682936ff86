"""Partners of accounts and of labeled rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
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


def row_partners(frame: pd.DataFrame, side: Side, snapshots: Sequence[GraphSnapshot]) -> NDArray[np.str_] | None:
    """Return the partner of each row (n,), or None where fewer than two are found.

    The partner is the one that the request names; otherwise the account's main partner, the one with the largest
    payments in the last snapshot; otherwise none, which is a cluster of the account alone.
    """
    partner = frame["account_id"].astype(str).radd("account ").to_numpy(dtype=object)
    if snapshots:
        node = main_partner(snapshots[-1], frame["account_id"].to_numpy(dtype=str), side)
        partner[node >= 0] = snapshots[-1].account_id[node[node >= 0]]
    if "partner_id" in frame:
        named = frame["partner_id"].notna().to_numpy(dtype=bool)
        partner[named] = frame["partner_id"].to_numpy(dtype=object)[named]
    names = partner.astype(str)
    return names if np.unique(names).size > 1 else None
