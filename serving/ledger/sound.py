"""Assertions about records and sums: each is made when they are written and again when they are read.

A fault of the code or of the disk in between is then an error, and no wrong answer.
"""

from collections.abc import Mapping
from math import isfinite

from shadowprice.campaign import Side
from shadowprice.decision import NOTHING
from shadowprice.errors import Unavailable
from shadowprice.limits.usage import Usage
from shadowprice.pacing.decision_log.records import Decision, OutcomeRow

MEND = "nothing more is granted from it; restore the ledger or recover it (docs/how-to/restore.md)"


def sound_decision(found: Decision) -> Decision:
    """Return a decision whose money, level and probability can be.

    Raises:
        Unavailable: they cannot.
    """
    paid = found.level > NOTHING and found.incentive >= 0
    nothing = found.level == NOTHING and found.incentive == 0
    if not ((paid or nothing) and found.most_units >= 1 and 0 <= found.propensity <= 1 + 1e-9):
        raise Unavailable(f"the record of request {found.request_id!r} is damaged: {found}; {MEND}")
    return found


def sound_outcome(found: OutcomeRow) -> OutcomeRow:
    """Return an outcome whose cost, response and amount can be.

    Raises:
        Unavailable: they cannot.
    """
    if not (found.cost >= 0 and (found.amount or 0) >= 0 and isfinite(found.response) and found.response >= 0):
        raise Unavailable(f"the outcome of request {found.request_id!r} is damaged: {found}; {MEND}")
    return found


def sound_usage(found: dict[str, Usage]) -> dict[str, Usage]:
    """Return sums of further limits, of which none is negative.

    Raises:
        Unavailable: one is.
    """
    for name, usage in found.items():
        if min(usage) < 0:
            raise Unavailable(f"the sum {name!r} of a limit is damaged: it is {tuple(usage)}; {MEND}")
    return found


def check_added(before: int, added: int, after: int) -> None:
    """Make sure that the sums have grown by what was recorded.

    Raises:
        Unavailable: they have not; nothing of the call is kept.
    """
    if after != before + added:
        raise Unavailable(f"{added} minor units were added to {before} open or spent, and the sums are {after}; {MEND}")


def check_sums(sums: Mapping[str, Mapping[Side, int]]) -> None:
    """Make sure that no sum of a kind and side is negative.

    Raises:
        Unavailable: one is.
    """
    for kind, sides in sums.items():
        for side, value in sides.items():
            if value < 0:
                raise Unavailable(f"the sum {kind!r} of {side!r} is damaged: it is {value}; {MEND}")
