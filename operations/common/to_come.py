"""Curves of the requests that a campaign expects, marked with its further budgets, rules and caps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.history import read_pairs
from shadowprice.pacing.population import Population
from shadowprice.pacing.state import PricingState


def requests_to_come(
    campaign: Campaign,
    workspace: Path,
    coverage: Coverage,
    population: Mapping[Side, Population],
    state: PricingState,
    unknown: Callable[[Side, NDArray[np.str_]], Curves],
) -> dict[Side, Population]:
    """Return side → all accounts, their curves weighted by their requests in the past and in the window so far.

    Args:
        campaign: whose requests are expected.
        workspace: folder with the pairs of accounts and partners of the past.
        coverage: of the campaign, with the columns that its conditions read.
        population: side → accounts of the model; sides may be missing.
        state: the newest requests.
        unknown: side and (n,) accounts that the model does not have → their curves.

    Where budgets, rules or caps read the partner, an account has a column for each partner.
    """
    found: dict[Side, Population] = {}
    pairs = read_pairs(workspace) if any(map(coverage.reads_partner, campaign.sides)) else {}
    for side in campaign.sides:
        recent = state.accounts.get(side, np.zeros(0, dtype=str))
        partners = state.partners.get(side, np.full(recent.size, ""))
        # The state names the newest requests of the window; each stands for some that it does not name.
        each = max(state.spend.requests.get(side, 0) / recent.size, 1.0) if recent.size else 0.0
        known = population.get(side)
        by_partner = coverage.reads_partner(side)
        parts: list[Population] = []
        if by_partner and known is not None and side in pairs:
            past = pairs[side]
            place = pc.index_in(pa.array(past["account_id"]), value_set=known.account_id)
            past = past[place.is_valid().to_numpy(zero_copy_only=False)]
            curves = known.curves.take(place.drop_null().to_numpy())
            curves = replace(curves, weight=past["activity"].to_numpy(dtype=np.float64))
            parts.append(_marked(coverage, side, curves, past["account_id"].tolist(), past["partner_id"].tolist()))
        elif not by_partner and known is not None:
            curves, recent = known.count(recent, each)
            parts.append(_marked(coverage, side, curves, known.account_id))
        if recent.size:
            other = replace(unknown(side, recent), weight=np.full(recent.size, each))
            parts.append(_marked(coverage, side, other, recent.tolist(), partners.tolist() if by_partner else None))
        if parts:
            curves = parts[0].curves if len(parts) == 1 else Curves.concatenate([part.curves for part in parts])
            found[side] = Population(pa.chunked_array([c for part in parts for c in part.account_id.chunks]), curves)
    return found


def _marked(
    coverage: Coverage,
    side: Side,
    curves: Curves,
    names: pa.ChunkedArray | Sequence[str],
    partners: Sequence[str] | None = None,
) -> Population:
    """Add the budgets that count the requests of each column, the levels that rules allow it, and its owners."""
    if coverage.rules or coverage.caps or any(each.condition for each in coverage.budgets) or partners:
        listed = names.to_pylist() if isinstance(names, pa.ChunkedArray) else names
        curves = coverage.mark(side, curves, listed, partners)
    return Population(names if isinstance(names, pa.ChunkedArray) else pa.chunked_array([names], pa.string()), curves)
