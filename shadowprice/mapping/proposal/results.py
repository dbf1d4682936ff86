"""Guesses about the results of the offers: columns, a file of outcomes, or an order export."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import time

import duckdb

from shadowprice.mapping.opened import quoted
from shadowprice.mapping.proposal.guesses import (
    Proposed,
    flag,
    has_two_values,
    hinted,
    named,
    names_rows,
    says_yes,
    time_keys,
    time_reason,
)
from shadowprice.mapping.proposal.parts import Free, Part, refers
from shadowprice.mapping.proposal.profile import Cells, Profile

DEFAULT_DELAY_DAYS = 7
DAY_END = "0.99999"
"""Days from the beginning of a day to its end."""
NUMBERS = ("name", "id", "nr", "no", "number", "nummer")
"""Whole names of a column with the numbers of orders."""
KNOWN = 0.02
"""Least share of the lines of an order export whose accounts got an offer."""
AMOUNTS = {
    "refunded": "what the customer got back of the order",
    "discount": "what the incentive took off the order: its cost",
    "total": "the order after the discount; where it is before, map it as amount",
}
"""Canonical column of an order → what the user's own is taken for, in the order in which they are looked for."""
CANCELED = re.compile(
    r"storn|cancel|refund|retour|return|erstatt|widerruf|rückgabe|annul|rembours|devol|void|charge.?back|revers|abgebroch|fail",
    re.I,
)
"""Words for an order that was taken back."""
KEPT = re.compile(r"\b(not?|nicht|kein\w*|non|sin|ohne)\b|partial|teil", re.I)
"""Words for an order that was not, or only in part."""


def results(free: dict[str, Cells], sent: Cells | None, times: Sequence[Cells]) -> Iterator[tuple[str, Proposed]]:
    """Columns of an outcome; those that are used are removed from ``free``."""
    answers = named([column for column in free.values() if has_two_values(column)], "redeemed")
    answers.sort(key=lambda column: not says_yes(column))
    known = [time for time in times if time.name in free]
    # A mark, such as x, stands where something was redeemed, and so does its time.
    marks = [column for column in free.values() if len(column.values) == 1 and hinted(column, "redeemed")]
    when = [column for column in known + marks if not column.full]
    if answers:
        yield "redeemed", flag(answers[0], len(answers) > 1 and not hinted(answers[0], "redeemed"))
        free.pop(answers[0].name)
    elif when:
        own = named(when, "redeemed")[0].name
        reason = f"redeemed where {own} is known"
        expression = f"CASE WHEN {quoted(own)} IS NULL THEN 0 ELSE 1 END"
        yield "redeemed", Proposed(keys={"expression": expression}, reason=reason, check=True)
        free.pop(own)
    full = [column for column in known if column.full]
    if full:
        chosen = named(full, "observed_at")[0]
        reason = time_reason(chosen, "when the result was known")
        yield "observed_at", Proposed(own=chosen.name, keys=time_keys(chosen), reason=reason, check=True)
        free.pop(chosen.name)
    elif sent is not None:
        keys = {**time_keys(sent), "plus_days": str(DEFAULT_DELAY_DAYS)}
        reason = "days after which an offer without a result counts as not redeemed"
        yield "observed_at", Proposed(own=sent.name, keys=keys, reason=reason, check=True)
    paid = [column.name for column in free.values() if column.kind == "number" and hinted(column, "cost_paid")]
    if paid:
        yield "cost_paid", Proposed(own=paid[0], reason="by its name", check=True)
        free.pop(paid[0])


def outcome(db: duckdb.DuckDBPyConnection, rows: Profile, made: Part) -> Part:
    """Return a file of results, of which each names its offer."""
    free = Free(rows)
    free.key(db, "request_id", made, "request_id")
    free.columns |= results(free.names, None, [cells for cells in free.left if cells.kind == "time"])
    return free.part(
        "outcome", [name for name in ("request_id", "redeemed", "observed_at") if name not in free.columns]
    )


def orders(db: duckdb.DuckDBPyConnection, rows: Profile, made: Part) -> Part | None:
    """Return an order export; None where the file names offers, no account or no time, or has one answer of each."""
    asked, account = (made.columns[name].own if name in made.columns else "" for name in ("request_id", "account_id"))
    if not account or (asked and refers(db, made.profile, asked, rows, rows.columns)):
        return None
    own = refers(db, made.profile, account, rows, named(rows.columns, "account_id"), least=KNOWN)
    free = Free(rows)
    free.times("ordered_at", lambda cells: not hinted(cells, "canceled"), "when it was ordered")
    answered = any(has_two_values(cells) and hinted(cells, "redeemed") for cells in free.left)
    priced = any(cells.kind == "number" and hinted(cells, "total of order") for cells in free.left)
    if not own or "ordered_at" not in free.columns or (answered and (rows.cells(own).unique or not priced)):
        return None
    at, sent = rows.cells(free.columns["ordered_at"].own), made.profile.cells(made.columns["decided_at"].own)
    if _days_only(at) and not _days_only(sent):
        keys = {**free.columns["ordered_at"].keys, "plus_days": DAY_END}
        reason = "a day without a time: its end, so that orders on the day of the offer count"
        free.columns["ordered_at"] = Proposed(own=at.name, keys=keys, reason=reason, check=True)
    free.take("account_id", own, reason=f"its values are {account} of {made.profile.source.file}")
    keys_like = [cells for cells in free.left if (cells.kind == "text" or cells.whole) and _names_many(cells)]
    called = [cells for cells in keys_like if hinted(cells, "order_id") or cells.name.casefold() in NUMBERS]
    free.first("order_id", called or filter(names_rows, keys_like), reason="lines with the same value are one order")
    if "order_id" not in free.columns:
        reason = "no column names an order: each line is one, also where it stands twice"
        free.columns["order_id"] = Proposed(keys={"row": "O"}, reason=reason, check=True)
    _amounts(free)
    for cells in free.left:
        status = _canceled(cells)
        if status is not None:
            free.columns["canceled"] = status
            free.names.pop(cells.name)
            break
    days = Proposed(own=str(DEFAULT_DELAY_DAYS), reason="days after the offer whose orders are its outcome", check=True)
    return replace(free.part("order", ()), settings={"days": days})


def _amounts(free: Free) -> None:
    numbers = [cells for cells in free.left if cells.kind == "number" and set(cells.values) != {"0", "1"}]
    for name, reason in AMOUNTS.items():
        found = [cells for cells in numbers if hinted(cells, f"{name} of order") and cells.name in free.names]
        if found:
            free.take(name, found[0].name, reason=reason, check=True)
    codes = [cells for cells in free.left if cells.kind == "text" and hinted(cells, "code of order")]
    if codes:
        free.take("code", codes[0].name, reason="only orders with a code cost something", check=True)


def _canceled(cells: Cells) -> Proposed | None:
    """Return the column as one that tells which orders were taken back, by its words or by its name."""
    reason = "lines with true take their order back"
    words = {word: bool(CANCELED.search(word) and not KEPT.search(word)) for word in cells.values}
    if cells.kind == "text" and any(words.values()) and not all(words.values()):
        values = {word: str(back).lower() for word, back in words.items()}
        return Proposed(own=cells.name, keys={"values": values}, reason=reason, check=True)
    if not hinted(cells, "canceled"):
        return None
    if has_two_values(cells):
        return replace(flag(cells, True), reason=reason)
    if cells.full:
        return None
    expression = f"CASE WHEN {quoted(cells.name)} IS NULL THEN 'false' ELSE 'true' END"
    return Proposed(keys={"expression": expression}, reason=f"{reason}: where {cells.name} is known", check=True)


def _names_many(cells: Cells) -> bool:
    return not cells.values or 2 * len(cells.values) > sum(cells.values.values())


def _days_only(cells: Cells) -> bool:
    return all(at is None or at.time() == time() for at in (cells.first, cells.last))
