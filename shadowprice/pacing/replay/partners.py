"""Partners of the requests of a day, drawn from those that each account named in the past."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.decision import uniform
from shadowprice.errors import InvalidInput
from shadowprice.pacing.replay.day import Day

PURPOSE = b"partner"


def draw_partners(pairs: pd.DataFrame, account_id: NDArray[np.str_], luck: NDArray[np.float64]) -> NDArray[np.str_]:
    """Return a partner (n,) of each request, in proportion to the account's past requests; empty where it named none.

    Args:
        pairs: account_id, partner_id and activity; an empty partner is left out.
        account_id: (n,) of the requests.
        luck: (n,), a number in [0, 1) of each request.

    O((pairs + n) log pairs).
    """
    partners = np.full(account_id.size, "", dtype=object)
    named = pairs[(pairs["partner_id"] != "") & (pairs["activity"] > 0)].sort_values("account_id", kind="stable")
    if named.empty:
        return partners.astype(np.str_)
    accounts, first = np.unique(named["account_id"].to_numpy(dtype=str), return_index=True)
    sums = np.cumsum(named["activity"].to_numpy(dtype=np.float64))
    ends = np.append(first[1:], len(named)) - 1
    before = np.where(first > 0, sums[first - 1], 0.0)
    place = np.minimum(np.searchsorted(accounts, account_id), accounts.size - 1)
    known = accounts[place] == account_id
    at = place[known]
    aim = before[at] + luck[known] * (sums[ends[at]] - before[at])
    chosen = np.minimum(np.searchsorted(sums, aim, side="right"), ends[at])
    partners[known] = named["partner_id"].to_numpy(dtype=object)[chosen]
    return partners.astype(np.str_)


def with_partners(day: Day, pairs: Mapping[Side, pd.DataFrame], campaign: Campaign) -> Day:
    """Return the day with partners, which depend on pairs and request ids alone.

    A request without a partner is left out where a limit counts its side by partner: the service refuses it.

    Raises:
        InvalidInput: such a limit leaves out every request of a side.
    """
    partner = day.partners.astype(object)
    kept = np.ones(len(day), dtype=bool)
    for side in SIDES:
        mine = np.flatnonzero(day.side == side)
        if side in pairs:
            luck = np.array([uniform(name, PURPOSE) for name in day.request_id[mine].tolist()], dtype=np.float64)
            partner[mine] = draw_partners(pairs[side], day.account_id[mine], luck)
        limit = campaign.limits.partner_limit(side)
        if limit is not None:
            kept[mine] = partner[mine] != ""
            if mine.size and not kept[mine].any():
                reason = f"{limit!r} counts by partner, and no past request of side {side!r} names one"
                raise InvalidInput(f"{reason}; give the limit a side", field="limits")
    named = Day(day.request_id, day.account_id, day.side, day.at, day.hours, partner.astype(np.str_), day.context)
    return named.take(kept)


def past_partners(
    pairs: Mapping[Side, pd.DataFrame], history: Mapping[Side, NDArray[np.str_]], seed: int
) -> dict[Side, NDArray[np.str_]]:
    """Return the partners of requests before the window, side → (rows,)."""
    return {
        side: draw_partners(
            known, history[side], np.random.default_rng([seed, SIDES.index(side)]).random(len(history[side]))
        )
        for side, known in pairs.items()
        if side in history
    }
