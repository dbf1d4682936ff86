"""Guesses about offers without an amount: the column that names them, and the control among them."""

import re
from collections.abc import Sequence

from shadowprice.mapping.proposal.guesses import Proposed, hinted
from shadowprice.mapping.proposal.profile import Cells

CONTROL = re.compile(r"\b(no|none|nothing|control|holdout|baseline|placebo|untreated|kein\w*|ohne|kontroll\w*)\b", re.I)
"""Words of the name of an offer that costs nothing."""


def alternatives(free: Sequence[Cells]) -> Cells | None:
    """Return the column that names the offer of each row: by its own name, or the only text of several values."""
    texts = [column for column in free if column.kind == "text" and len(column.values) > 1 and not column.unique]
    named = [text for text in texts if hinted(text, "offer_id")]
    several = [text for text in texts if len(text.values) > 2]
    return next(iter(named or (several if len(several) == 1 else [])), None)


def control(names: Cells) -> str:
    """Return the offer whose name means no offer; empty where not exactly one has such a name."""
    controls = [name for name in names.values if CONTROL.search(name)]
    return controls[0] if len(controls) == 1 else ""


def named_offer(names: Cells) -> Proposed:
    """Return the column as the identifiers of the offers."""
    reason = f"{len(names.values)} offers that have no amount; where they have one, map face_value too"
    return Proposed(own=names.name, reason=reason, check=True)


def unit_cost(names: Cells) -> Proposed:
    """Return a cost of 1 for each offer but the control, in order of their names."""
    free = control(names)
    values = {name: "0" if name == free else "1" for name in sorted(names.values)}
    reason = "of each offer that is given, 0 of the one that is none" + ("" if free else ": say which that is")
    return Proposed(own=names.name, keys={"values": values}, reason=reason, check=True)
