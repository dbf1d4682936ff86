"""Curves of the requests that a campaign expects, marked with its further budgets, rules and caps."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.campaign.session import SESSION
from shadowprice.curves import Curves
from shadowprice.errors import NotFound
from shadowprice.limits.coverage import Context, Coverage, SideRequests
from shadowprice.pacing.contexts import context_columns, drawn_contexts, joined_contexts
from shadowprice.pacing.history import CONTEXTS, read_part
from shadowprice.pacing.population import SideAccounts
from shadowprice.pacing.state import PricingState

Unknown = Callable[[Side, NDArray[np.str_], NDArray[np.str_] | None, Context | None], Curves]
"""Gives the curves (J, n) of n requests of a side, by their accounts, partners and context; a partner is empty where a
request has none, and no partners and no context are None."""


def requests_to_come(
    campaign: Campaign,
    workspace: Path,
    coverage: Coverage,
    population: Mapping[Side, SideAccounts],
    state: PricingState,
    unknown: Unknown,
    by_session: Collection[Side] = (),
) -> dict[Side, SideAccounts]:
    """Return side → all accounts, their curves weighted by their requests in the past and in the window so far.

    Args:
        campaign: whose requests are expected.
        workspace: folder with the pairs of accounts and partners, and the contexts, of the past.
        coverage: of the campaign, with the columns that its conditions read.
        population: side → accounts of the model; sides may be missing.
        state: the newest requests.
        unknown: gives the curves of the newest requests, or of those whose accounts the model does not have.
        by_session: sides whose curve the session of a request moves: there each of the newest requests has a column
            with its own, where some have sessions.

    Where budgets, rules or caps read the partner, an account has a column for each partner. Where they read the
    context, each of the newest requests has a column with its own. The other columns have those of the newest requests
    in turn: contexts are taken to be independent of accounts. Until the window has enough, the past has the others.
    The accounts of a delivery are those of the model.

    Raises:
        NotFound: something reads the partner of a side, and neither the past nor the window has any.
    """
    if campaign.segments:
        # An account has one place, however often it asks.
        return dict(population)
    populations: dict[Side, SideAccounts] = {}
    pairs = read_part(workspace, "pairs") if any(map(coverage.reads_partner, campaign.sides)) else {}
    past_contexts = read_part(workspace, "contexts") if any(map(coverage.context_names, campaign.sides)) else {}
    for side in campaign.sides:
        recent = state.accounts.get(side, np.zeros(0, dtype=str))
        partners = state.partners.get(side, np.full(recent.size, ""))
        # The state names the newest requests of the window; each stands for some that it does not name.
        weight = max(state.spend.requests.get(side, 0) / recent.size, 1.0) if recent.size else 0.0
        known = population.get(side)
        by_partner, names = coverage.reads_partner(side), coverage.context_names(side)
        read = side in state.contexts and bool(names or side in by_session)
        live = context_columns(state.contexts[side].tolist()) if read else None
        if live is not None and not names and SESSION not in live:
            live = None
        older = past_contexts.get(side, pd.DataFrame())
        # A past without one of the values knows less than no past: what is unknown forbids.
        wanted = max(CONTEXTS - (0 if live is None else recent.size), 0) if set(names) <= set(older) else 0
        older = older.head(wanted)
        past = {str(name): older[name].tolist() for name in older}
        pool = joined_contexts([*([] if live is None else [(live, recent.size)]), (past, len(older))], names)
        parts: list[SideAccounts] = []
        expected = float(np.sum(state.remaining.get(side, 0.0))) > 0
        if by_partner and known is not None and side not in pairs and not recent.size and expected:
            raise NotFound(
                f"the run has not counted the partners of its {side}s, which a limit or rule reads; write the limit or "
                "rule into the campaign of the mapping or tables and run again: featurize then counts them"
            )
        if by_partner and known is not None and side in pairs:
            before = pairs[side]
            place = pc.index_in(pa.array(before["account_id"]), value_set=known.account_id)
            before = before[place.is_valid().to_numpy(zero_copy_only=False)]
            curves = known.curves.take(place.drop_null().to_numpy())
            curves = replace(curves, weight=before["activity"].to_numpy(dtype=np.float64))
            asked, beside = before["account_id"].tolist(), before["partner_id"].tolist()
            parts.append(_marked(coverage, side, curves, asked, beside, drawn_contexts(pool, len(asked))))
        elif not by_partner and known is not None:
            curves = known.curves
            if live is None:
                curves, recent = known.count(recent, weight)
            parts.append(
                _marked(coverage, side, curves, known.account_id, context=drawn_contexts(pool, curves.accounts))
            )
        if recent.size:
            curves = unknown(side, recent, None if live is None else partners, live)
            other = replace(curves, weight=np.full(recent.size, weight))
            parts.append(
                _marked(coverage, side, other, recent.tolist(), partners.tolist() if by_partner else None, live)
            )
        if parts:
            curves = parts[0].curves if len(parts) == 1 else Curves.concatenate([part.curves for part in parts])
            populations[side] = SideAccounts(
                pa.chunked_array([c for part in parts for c in part.account_id.chunks]), curves
            )
    return populations


def _marked(
    coverage: Coverage,
    side: Side,
    curves: Curves,
    names: pa.ChunkedArray | Sequence[str],
    partners: Sequence[str] | None = None,
    context: Context | None = None,
) -> SideAccounts:
    """Add the budgets that count the requests of each column, the levels that rules allow it, and its owners."""
    named = coverage.rules or coverage.caps or side in {*coverage.worths, *coverage.influences} or partners
    if named or any(budget.condition for budget in coverage.budgets):
        listed = names.to_pylist() if isinstance(names, pa.ChunkedArray) else names
        curves = coverage.mark(SideRequests(side, listed, partners or (), context), curves)
    return SideAccounts(names if isinstance(names, pa.ChunkedArray) else pa.chunked_array([names], pa.string()), curves)
