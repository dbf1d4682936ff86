"""Sizes of a delivery that no plan can have, found before anything is learned."""

import numpy as np

from shadowprice.allocation.exact_sizes.plan import NOBODY, SizedProblem
from shadowprice.allocation.exact_sizes.repair import place_everybody
from shadowprice.campaign import Campaign, demands, may_enter
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
                raise InvalidProblem(shortage.named([segment.name for segment in terms.segments]), field="demands")
