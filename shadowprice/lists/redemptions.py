"""Redemptions of an order export against the codes that were given: what is to be booked, and what does not match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pandas as pd

from shadowprice.errors import InvalidInput
from shadowprice.lists.code_file import code_key
from shadowprice.lists.codes import Coded
from shadowprice.mapping.redemptions import MONEY, Redemptions

TOLERANCE: Final = timedelta(minutes=5)
"""Difference of the clocks of shop and ledger that is no fault, as the ledger has it."""
SHOWN_LINES: Final = 5


class Redemption(NamedTuple):
    """Use of a code in an order; amounts in minor units, unknown in another currency.

    line      of the file, the first of the order
    discount  amount that the code took off; total, of the order after it; refunded, part of the total that was paid
              back
    """

    line: int
    order_id: str
    code: str
    redeemed_at: datetime
    discount: int
    total: int
    refunded: int
    currency: str

    @property
    def cost(self) -> int:
        """Return the part of the discount that stands.

        A refund takes back the share that it is of the total, rounded down.
        """
        return self.discount - (self.discount * self.refunded // self.total if self.refunded else 0)

    @property
    def stands(self) -> bool:
        """Return whether any of the order was kept."""
        return not self.refunded or self.refunded < self.total

    @property
    def amount(self) -> int:
        """Return the part of the order that was kept, before the discount."""
        return self.total - self.refunded + self.cost


class Booking(NamedTuple):
    """Outcome of a decision for the ledger, or a correction of it.

    number       0 for the outcome, 1, 2, … for its corrections
    discount     of the order; cost, the part that stands, both in minor units
    stands       whether the response stands
    observed_at  microseconds since 1970 (UTC)
    amount       part of the order that stands, before the discount, minor units; None where its total is not known
    """

    request_id: str
    number: int
    side: str
    order_id: str
    discount: int
    cost: int
    stands: bool
    observed_at: int
    amount: int | None = None

    def only_states_amount(self, standing: Booking | None) -> bool:
        """Return whether a correction changes nothing that stands, but gives the amount that it lacks."""
        return standing is not None and standing.amount is None and self[4:7] == standing[4:7]


class Unmatched(NamedTuple):
    """Redemption that is not booked, or not as the file states it, and the reason."""

    redemption: Redemption
    reason: str
    detail: str


@dataclass
class Judgment:
    """Bookings to make, redemptions that do not match, and the number of those that are booked already."""

    bookings: list[Booking] = field(default_factory=list)
    unmatched: list[Unmatched] = field(default_factory=list)
    unchanged: int = 0
    of: dict[str, Redemption] = field(default_factory=dict)
    """Redemption of each request id with a booking."""


def by_order(read: Redemptions) -> list[Redemption]:
    """Return one redemption for each order and code, the oldest first.

    Raises:
        InvalidInput: an order has several lines with a code, and the mapping does not say how they combine; or lines
            that repeat the amounts of the order differ.
    """
    lines, keys = read.lines, ["order_id", "key"]
    lines = lines.assign(key=lines["code"].map(code_key))
    again = lines.duplicated(keys, keep=False)
    if again.any() and not read.combine:
        raise InvalidInput(
            f"orders have several lines with a code, first in {_lines(lines[again]['line'])}: write `lines: sum` in "
            "the mapping where their amounts add up, or `lines: same` where each line repeats those of the order",
            field="lines",
        )
    if again.any() and read.combine == "same":
        amounts = lines.groupby(keys)[list(MONEY)]
        differs = (amounts.transform("max") != amounts.transform("min")).fillna(False).any(axis=1)
        if differs.any():
            raise InvalidInput(
                f"lines of one order have other amounts, first in {_lines(lines[differs]['line'])}; write `lines: sum` "
                "where they add up",
                field="lines",
            )
    how = dict.fromkeys(MONEY, "first" if read.combine == "same" else "sum")
    first = dict.fromkeys(("line", "order_id", "code", "currency"), "first")
    if again.any():
        lines = lines.groupby(keys, sort=False, as_index=False).agg(first | {"redeemed_at": "min"} | how)
    ordered = lines.sort_values(["redeemed_at", "line"], kind="stable")
    columns = [ordered[name].tolist() for name in Redemption._fields]
    made = (Redemption(*row) for row in zip(*columns, strict=True))
    # A Timestamp is a datetime with a text of its own.
    return [
        each._replace(redeemed_at=pd.Timestamp(each.redeemed_at).to_pydatetime(), currency=each.currency or "")
        for each in made
    ]


def judge(
    redemptions: Sequence[Redemption],
    given: Mapping[str, Coded | None],
    standing: Mapping[str, Booking],
    currency: str,
    now: datetime,
    *,
    totals: bool = False,
) -> Judgment:
    """Compare redemptions with the codes and with what was booked before. O(redemptions).

    The first order with a code uses it. An order that was booked changes only by refunds, which take from its cost;
    another difference is left to a person.

    Args:
        redemptions: the oldest first.
        given: key of each known code → its decision, None for a code that was not given.
        standing: request id → its newest booking.
        currency: of the campaign.
        now: UTC.
        totals: whether the redemptions have totals, which are then the amounts of the outcomes.
    """
    found, used = Judgment(), {request: booking.order_id for request, booking in standing.items()}
    for each in redemptions:
        key = code_key(each.code)
        coded = given.get(key)
        fault = next(_faults(each, key in given, coded, used, currency, now), None)
        if fault is not None:
            found.unmatched.append(Unmatched(each, *fault))
            continue
        assert coded is not None
        booked = standing.get(coded.request_id)
        used[coded.request_id] = each.order_id
        amount = each.amount if totals and each.stands else None
        states = amount is not None and booked is not None and booked.amount is None
        more = 0 if amount is None or booked is None or booked.amount is None else amount - booked.amount
        if booked is not None and booked[4:7] == (each.discount, each.cost, each.stands) and not (more or states):
            found.unchanged += 1
        elif booked is not None and (
            booked.discount != each.discount or each.cost > booked.cost or each.stands > booked.stands or more > 0
        ):
            detail = f"discount {booked.discount}, of which {booked.cost} stand, was booked in minor units"
            found.unmatched.append(Unmatched(each, "differs from what was booked", detail))
        else:
            found.of[coded.request_id] = each
            number = 0 if booked is None else booked.number + 1
            at = (each.redeemed_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            money = each.discount, each.cost, each.stands
            found.bookings.append(Booking(coded.request_id, number, coded.side, each.order_id, *money, at, amount))
    return found


def _faults(
    each: Redemption, known: bool, coded: Coded | None, used: Mapping[str, str], currency: str, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield the reasons that a redemption cannot be booked for, with details."""
    if not known:
        yield "unknown code", ""
    if coded is None:
        yield "code was not given", ""
        return
    if each.currency not in ("", currency):
        yield "other currency", f"the campaign is in {currency}"
    order = used.get(coded.request_id, each.order_id)
    if order != each.order_id:
        yield "code used twice", f"order {order!r} used it first"
    if each.refunded > each.total:
        yield "refund above the total", ""
    given_at = datetime.fromtimestamp(coded.assigned_at, UTC)
    if each.redeemed_at < given_at - TOLERANCE:
        yield "before the decision", f"the code was given at {given_at.isoformat()}"
    if each.redeemed_at > now + TOLERANCE:
        yield "in the future", "is the time zone of the mapping right?"
    if each.cost > coded.incentive:
        yield "above the hold", f"{coded.incentive} minor units are held"


def _lines(lines: pd.Series[int]) -> str:
    return f"lines {', '.join(map(str, lines.tolist()[:SHOWN_LINES]))}"
