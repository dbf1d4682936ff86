"""Bring the ledger to what an order export states about the codes of a pool."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from serving.client.client import Correction, LedgerClient, Outcome
from serving.ledger.refusals import NO_AMOUNT
from shadowprice.errors import Conflict, InvalidInput, NotFound
from shadowprice.files import lock_file
from shadowprice.lists.bookings import Bookings
from shadowprice.lists.codes import CodePool
from shadowprice.lists.redemptions import Booking, Unmatched, by_order, judge
from shadowprice.mapping.redemptions import Redemptions
from shadowprice.pacing.decision_log.records import CorrectionKind

SOURCE = "shadowprice-settle"
EVENTS = 500
"""Events of one call to the ledger."""
REFUSED = "refused by the ledger"
Event = TypeVar("Event", Outcome, Correction)
_PLACE = re.compile(r"\[(\d+)\][\w.]*: ")


@dataclass
class Settlement:
    """Result of settling a file; money in minor units.

    lines       with a code; without, number of lines without one
    orders      uses of a code, one for each order and code
    captured    outcomes that were booked, and their money; refunded likewise the corrections and what they took back
    stated      uses that were captured without an amount, and have that of the order now
    unchanged   uses that were booked before
    unmatched   uses that were not booked, or differ from what was booked
    """

    lines: int
    without: int
    orders: int
    captured: int = 0
    captured_money: int = 0
    refunded: int = 0
    refunded_money: int = 0
    stated: int = 0
    unchanged: int = 0
    unmatched: list[Unmatched] = field(default_factory=list)

    @property
    def reasons(self) -> dict[str, int]:
        """Number of unmatched uses by their reason."""
        return dict(sorted(Counter(each.reason for each in self.unmatched).items()))


def settle(read: Redemptions, pool: CodePool, ledger: LedgerClient, currency: str) -> Settlement:
    """Book the redemptions of a file: outcomes of codes, and corrections where an order was refunded since.

    A use that was captured without an amount, by an older file or another program, gets that of its order.

    Every booking is written to the pool before it is sent, so a run that was interrupted is finished by the next one.
    The same file twice records nothing.

    Args:
        read: lines of the file.
        pool: whose codes were given.
        ledger: of the campaign.
        currency: of the campaign.

    Raises:
        InvalidInput: the file is in another currency, or its lines do not combine.
        Conflict: another process settles codes of the pool.
        Unavailable: the ledger does not answer; run it again.
    """
    if read.currency != currency:
        raise InvalidInput(f"is {read.currency}, and the campaign is in {currency}", field="currency")
    redemptions = by_order(read)
    lock = lock_file(pool.file.with_name(f"{pool.file.name}.lock"))
    if lock is None:
        raise Conflict(f"another process settles codes of {pool.file}; wait for its end")
    with open(lock):
        bookings = Bookings(pool)
        for part in _parts(bookings.pending()):
            _send(part, bookings, ledger, bookings.standing())
        standing = bookings.standing()
        found = judge(
            redemptions,
            pool.find([each.code for each in redemptions]),
            standing,
            currency,
            datetime.now(UTC),
            totals=read.totals,
        )
        result = Settlement(len(read.lines), read.without, len(redemptions), unchanged=found.unchanged)
        result.unmatched = found.unmatched
        for part in _parts(found.bookings):
            bookings.note(part)
            refused = _send(part, bookings, ledger, standing)
            captured = [each for each, why in refused.items() if not each.number and why.endswith(NO_AMOUNT)]
            if captured:
                part, more = _state(captured, part, bookings, ledger, standing)
                refused = {each: why for each, why in refused.items() if each not in captured} | more
            result.unmatched += [Unmatched(found.of[each.request_id], REFUSED, why) for each, why in refused.items()]
            for each in part:
                if each not in refused and each.number == 0:
                    result.captured += 1
                    result.captured_money += each.cost
                elif each not in refused and each.only_states_amount(standing[each.request_id]):
                    result.stated += 1
                elif each not in refused:
                    result.refunded += 1
                    result.refunded_money += standing[each.request_id].cost - each.cost
    result.unmatched.sort(key=lambda each: each.redemption.line)
    return result


def _parts(bookings: Sequence[Booking]) -> Iterator[Sequence[Booking]]:
    return (bookings[start : start + EVENTS] for start in range(0, len(bookings), EVENTS))


def _send(
    part: Sequence[Booking], bookings: Bookings, ledger: LedgerClient, standing: Mapping[str, Booking]
) -> dict[Booking, str]:
    """Send bookings, keep the answer, and return the refused ones with the ledger's reason."""

    def correction(booking: Booking) -> Correction:
        return _correction(booking, standing.get(booking.request_id))

    refused = _isolate([each for each in part if not each.number], _outcome, ledger.settle)
    refused |= _isolate([each for each in part if each.number], correction, ledger.correct)
    bookings.answer([each for each in part if each not in refused], refused)
    return refused


def _state(
    captured: Sequence[Booking],
    part: Sequence[Booking],
    bookings: Bookings,
    ledger: LedgerClient,
    standing: dict[str, Booking],
) -> tuple[list[Booking], dict[Booking, str]]:
    """Book captures of another program as they are, then their amounts as corrections; the ledger has the first.

    Returns:
        the part with the corrections in place of the captures, and refused bookings with their reasons.
    """
    plain = [each._replace(amount=None) for each in captured]
    bookings.note(plain)
    refused = _send(plain, bookings, ledger, standing)
    standing |= {each.request_id: each for each in plain if each not in refused}
    amounts = [each._replace(number=1) for each in captured if standing.get(each.request_id)]
    bookings.note(amounts)
    refused |= _send(amounts, bookings, ledger, standing)
    kept = [each for each in part if each not in captured]
    return [*kept, *amounts, *(each for each in plain if each in refused)], refused


def _isolate(
    rest: list[Booking], event: Callable[[Booking], Event], call: Callable[[Sequence[Event], str], tuple[int, int]]
) -> dict[Booking, str]:
    """Send the bookings that the ledger accepts: it refuses a call whole, and names the event."""
    refused: dict[Booking, str] = {}
    while rest:
        try:
            call([event(each) for each in rest], SOURCE)
            break
        except (Conflict, InvalidInput, NotFound) as error:
            place = _PLACE.match(str(error))
            if place is None:
                raise
            refused[rest.pop(int(place[1]))] = str(error)[place.end() :]
    return refused


def _outcome(booking: Booking) -> Outcome:
    customer = booking.side == "customer"
    return Outcome(
        request_id=booking.request_id,
        cost=booking.cost,
        observed_at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=booking.observed_at),
        redeemed=booking.stands if customer else None,
        response=None if customer else float(booking.stands),
        amount=booking.amount,
    )


def _correction(booking: Booking, standing: Booking | None) -> Correction:
    # A request id may have the length of an identifier, so that nothing fits behind it.
    of = hashlib.sha256(booking.request_id.encode()).hexdigest()[:32]
    kind: CorrectionKind = "reversal" if booking.only_states_amount(standing) else "refund"
    return Correction(**vars(_outcome(booking)), event_id=f"{of}-{booking.number}", kind=kind)
