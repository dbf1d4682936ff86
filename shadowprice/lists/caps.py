"""Levels that caps leave to accounts of a list, each of which has one request."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.groups import hashes
from shadowprice.pacing.spend import CapUse


def within_caps(
    campaign: Campaign, side: Side, account_id: Sequence[str], use: Mapping[str, CapUse]
) -> NDArray[np.bool_] | None:
    """bool (J, n): levels that leave every cap of the n accounts unbroken; None where no cap concerns the side.

    Args:
        campaign: its caps; those of partners concern nobody, as a list names none.
        side: of the accounts.
        account_id: n accounts.
        use: name → use of each cap so far; a cap that is missing was not used.
    """
    caps = [cap for cap in campaign.limits.caps if cap.per == "account" and cap.side in (None, side)]
    if not caps:
        return None
    reserved = np.asarray(campaign.terms(side).reserved, dtype=np.int64)[:, None]
    within = np.ones((reserved.size, len(account_id)), dtype=np.bool_)
    owners = hashes(account_id)
    for cap in caps:
        used = use[cap.name].at(owners) if cap.name in use else np.zeros((4, len(account_id)), dtype=np.int64)
        amount, uses, amount_elsewhere, uses_elsewhere = used
        if cap.count is not None:
            within &= (reserved == 0) | (uses + uses_elsewhere < cap.count)
        if cap.amount is not None:
            within &= (reserved == 0) | (amount + amount_elsewhere + reserved <= cap.amount)
        if cap.exclusive:
            within &= (reserved == 0) | (uses_elsewhere == 0)
    return within
