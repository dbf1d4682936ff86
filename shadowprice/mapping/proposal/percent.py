"""Guesses about offers in percent: their share, cap and least spend, and the order that each is a part of."""

from collections.abc import Sequence

from shadowprice.mapping.opened import quoted
from shadowprice.mapping.proposal.alternatives import alternatives
from shadowprice.mapping.proposal.guesses import Proposed, hinted
from shadowprice.mapping.proposal.profile import Cells, Profile

PARTS = {
    "face_value": "the most that a percentage pays, its cap; of another offer its amount",
    "min_spend": "the smallest order that a percentage is paid for",
    "amount": "the amount of the order, before the discount",
}
"""Canonical column → what the user's own is taken for, in the order in which they are looked for."""


def in_percent(free: Sequence[Cells], rows: Profile) -> dict[str, Proposed]:
    """Return the columns of offers in percent, by their names; empty where no column is called a percentage.

    A cap that no column is called is left out: the user must say it.
    """
    numbers = [cells for cells in free if cells.kind == "number"]
    shares = [cells for cells in numbers if hinted(cells, "percent") and _within_100(cells, rows)]
    if not shares:
        return {}
    share = shares[0]
    reason = "by its name: each offer is this part of an order, and no sum of money"
    found = {"percent": Proposed(own=share.name, reason=reason, check=True)}
    left = [cells for cells in numbers if cells is not share]
    for name, reason in PARTS.items():
        named = next((cells for cells in left if hinted(cells, f"{name} of percent")), None)
        if named is not None:
            found[name] = Proposed(own=named.name, reason=reason, check=True)
            left.remove(named)
    names = alternatives(free)
    if names is None:
        expression = f"coalesce(CAST({quoted(share.name)} AS VARCHAR) || ' percent', 'other')"
        found["offer_id"] = Proposed(keys={"expression": expression}, reason="offers by their percentage", check=True)
    else:
        found["offer_id"] = Proposed(own=names.name, reason=f"{len(names.values)} offers", check=True)
    return found


def _within_100(cells: Cells, rows: Profile) -> bool:
    return bool(cells.values) and all(0 < rows.number(value) <= 100 for value in cells.values)
