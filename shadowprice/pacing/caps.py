"""Share of the requests to come that caps let a level be given to, so that prices do not count what caps forbid."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.limits import Cap, period_of
from shadowprice.pacing.spend import SpendReport

Real = NDArray[np.float64]

LARGE = 50.0
"""Mean from which a Poisson number is taken to be normal."""
_erf = np.frompyfunc(math.erf, 1, 1)


def granted_by_caps(
    campaign: Campaign, side: Side, curves: Curves, spend: SpendReport, ahead: Real, slot: int
) -> Curves:
    """Return the curves of N accounts with ``granted`` (J, N), by the caps of a campaign.

    Args:
        campaign: its caps; without caps the curves are returned as they are.
        side: of the curves.
        curves: of all accounts that ask, with their owners (:meth:`Coverage.mark`).
        spend: requests so far.
        ahead: (slots,), requests expected in the rest of this slot and in each later one.
        slot: of the first entry.

    An account (or partner) that makes the share s of the requests makes a Poisson number of them in a period, with the
    mean s·n. Each is given one level until the cap is reached, and then the level without incentive. With a count c,
    E[min(K, c)] requests are given it. With an amount A, ⌊A/r⌋ payments of r fit, and the number of payments is
    Poisson with the mean s·n·f, where f is the chance that a grant is paid. Of requests so far the same is assumed.
    The use of each account is not read: the totals of the services do not have it.

    A level that counts for the share g of the requests is one column of the linear programme with the limit
    Σ x_paid ≤ g of each account, so the solve stays exact. O(caps · J · N).
    """
    caps = [each for each in campaign.limits.caps if each.side in (None, side)]
    if not caps or curves.owners is None or not curves.accounts:
        return curves
    terms = campaign.terms(side)
    most = np.array(terms.reserved, dtype=np.float64)[:, None]
    paid = np.minimum(curves.response, terms.most_units) / terms.most_units
    chance = np.ones_like(paid) if terms.cost_basis == "on_grant" else np.maximum(paid, 1e-9)
    granted = np.ones(curves.response.shape)
    for cap in caps:
        owner = curves.owners[int(cap.per == "partner")]
        _, place = np.unique(owner, return_inverse=True)
        share = np.where(owner == 0, 0.0, np.bincount(place, curves.shares())[place])
        given, asked = np.zeros(granted.shape), 0.0
        for before, later in _periods(campaign, cap, spend.requests.get(side, 0), ahead, slot):
            asked += later
            fits = np.full(granted.shape, later) * share
            if cap.count is not None:
                own = poisson_capped_mean(share * (before + later), cap.count) - poisson_capped_mean(
                    share * before, cap.count
                )
                fits = np.minimum(fits, own)
            if cap.amount is not None:
                payments = np.floor(cap.amount / np.maximum(most, 1.0))
                own = poisson_capped_mean(share * (before + later) * chance, payments) - poisson_capped_mean(
                    share * before * chance, payments
                )
                fits = np.minimum(fits, own / chance)
            given += fits
        of_cap = np.divide(given, share * asked, out=np.ones(granted.shape), where=share * asked > 0)
        granted = np.minimum(granted, np.where(most > 0, of_cap, 1.0))
    return replace(curves, granted=granted.astype(np.float32), owners=None)


def _periods(campaign: Campaign, cap: Cap, requests: float, ahead: Real, slot: int) -> list[tuple[float, float]]:
    """Requests before now and later of each period of the cap to come; of a day so far by its share of the hours."""
    first = max(slot, 0)
    hours = [period_of(cap.period, campaign.starts_at + timedelta(hours=hour)) for hour in range(first + ahead.size)]
    labels = np.array(hours)
    found = []
    for label in dict.fromkeys(hours[first:]):
        before = requests * float((labels[:first] == label).sum()) / max(first, 1)
        found.append((before, float(ahead[labels[first:] == label].sum())))
    return found


def poisson_capped_mean(mean: Real, most: Real | float) -> Real:
    """E[min(K, most)] of a Poisson number K, elementwise: the sum of P(K > k) over k < most; normal above LARGE."""
    mean, limit = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(most, dtype=np.float64))
    small = np.minimum(mean, LARGE)
    mass = np.exp(-small)
    above = 1.0 - mass
    found = np.where(limit > 0, above, 0.0)
    for k in range(1, int(min(limit.max(initial=0.0), LARGE + 12 * math.sqrt(LARGE)))):
        if not np.any(above > np.finfo(np.float64).eps):
            break
        mass = mass * small / k
        above = np.maximum(above - mass, 0.0)
        found += np.where(limit > k, above, 0.0)
    large = mean > LARGE
    if large.any():
        above, deviation = limit[large] - mean[large], np.sqrt(mean[large])
        z = above / deviation
        below = 0.5 * (1.0 + np.asarray(_erf(z / math.sqrt(2.0)), dtype=np.float64))
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        found[large] = np.maximum(limit[large] - above * below - deviation * density, 0.0)
    return np.asarray(np.minimum(found, np.minimum(mean, limit)))
