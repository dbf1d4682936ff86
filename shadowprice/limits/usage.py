"""Sums of further limits, as the ledger counts them, and what they leave for a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from shadowprice.limits.sums import Bound, name_of

LimitReason = Literal["budget_exhausted", "capped"]


class Usage(NamedTuple):
    """One sum of a limit.

    amount  minor units of open authorizations and net spend
    uses    paid incentives that are open or captured
    """

    amount: int = 0
    uses: int = 0

    def plus(self, amount: int, uses: int) -> Usage:
        """Return the sum after a change."""
        return Usage(self.amount + amount, self.uses + uses)


class Left(NamedTuple):
    """Amount that a request may still cost, and the limit that leaves so little.

    amount  minor units; 0 or less where only what costs nothing fits
    name    of the limit
    reason  of the answer where the wanted level does not fit
    """

    amount: int
    name: str
    reason: LimitReason = "budget_exhausted"


def reason_of(bound: Bound) -> LimitReason:
    """Return the reason of an answer that this limit changes."""
    return "capped" if bound.kind == "cap" else "budget_exhausted"


Elsewhere = Mapping[str, Usage]
"""Sums of the other campaigns that share a limit, added up, by name; absent ones are zero."""


def tightest(
    main: Left,
    bounds: Mapping[str, Bound],
    sums: Sequence[str],
    usage: Mapping[str, Usage],
    elsewhere: Elsewhere = MappingProxyType({}),
) -> Left:
    """Return the limit that leaves least for a request; the first of those that leave the same. O(sums).

    Args:
        main: what the main budget leaves.
        bounds: the further limits that are enforced, by name.
        sums: those that the request adds to.
        usage: of these sums in this campaign; absent ones are zero.
        elsewhere: of these sums in the campaigns that share a limit with this one; none where one is asked alone.
    """
    least = main
    for name in sums:
        bound = bounds.get(name_of(name))
        if bound is None:
            continue
        others = elsewhere.get(name, Usage())
        used = usage.get(name, Usage()).plus(*others)
        if bound.most_amount is not None and bound.most_amount - used.amount < least.amount:
            least = Left(bound.most_amount - used.amount, bound.name, reason_of(bound))
        full = bound.most_count is not None and used.uses >= bound.most_count
        if (full or (bound.exclusive and others.uses > 0)) and least.amount > 0:
            least = Left(0, bound.name, reason_of(bound))
    return least


def exceeded(
    bounds: Mapping[str, Bound],
    sums: Sequence[str],
    usage: Mapping[str, Usage],
    elsewhere: Elsewhere,
    amount: int,
    count: int,
) -> Left | None:
    """Return the first limit without room for ``amount`` and ``count`` more, and what it leaves; None if all have it.

    ``count`` 0 asks for no room in counts.
    """
    for name in sums:
        bound = bounds.get(name_of(name))
        if bound is None:
            continue
        others = elsewhere.get(name, Usage())
        used = usage.get(name, Usage()).plus(*others)
        if bound.most_amount is not None and used.amount + amount > bound.most_amount:
            return Left(bound.most_amount - used.amount, bound.name)
        full = bound.most_count is not None and used.uses + count > bound.most_count
        if count and (full or (bound.exclusive and others.uses > 0)):
            return Left(0, bound.name, reason_of(bound))
    return None
