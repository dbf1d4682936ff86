"""Partner of each labelled row, for intervals clustered by account and partner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.graphs.partners import main_partner
from shadowprice.graphs.snapshot import GraphSnapshot


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
    found = partner.astype(str)
    return found if np.unique(found).size > 1 else None
