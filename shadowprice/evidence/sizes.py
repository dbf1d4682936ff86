"""Sizes of a delivery that no plan can have, found before anything is learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shadowprice.allocation.exact_sizes.plan import NOBODY, Shortage, SizedProblem
from shadowprice.allocation.exact_sizes.repair import place_everybody
from shadowprice.campaign import Campaign, Segment, demands, may_enter
from shadowprice.errors import InvalidProblem
from shadowprice.tables import Tables, tolerances


def check_sizes(tables: Tables, campaign: Campaign) -> None:
    """Refuse segments that no plan for the accounts of the tables can fill exactly.

    Raises:
        InvalidProblem: the demands do not sum to the accounts, an account may enter no segment, or segments ask for
            more accounts than tolerate them.

    O(J·N).
    """
    for side, terms in campaign.sides.items():
        if terms.segments:
            allowed = may_enter(terms.segments, tolerances(tables, side).to_numpy())
            problem = SizedProblem.of(np.zeros(allowed.shape, dtype=np.float32), demands(terms.segments), allowed)
            nowhere = np.full(allowed.shape[1], NOBODY, dtype=np.int32)
            if (shortage := place_everybody(problem, nowhere)[1]) is not None:
                raise InvalidProblem(no_plan(terms.segments, shortage), field="demands")


def no_plan(segments: Sequence[Segment], shortage: Shortage) -> str:
    """Return the sentence that names the segments with too few eligible accounts, and what to do."""
    named = [segments[index].name for index in shortage.segments]
    return f"there is no plan: {named}: {shortage}; lower these demands or widen who may have them"
