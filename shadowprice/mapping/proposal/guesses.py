"""Guesses about one column of a user's file: what it may stand for, and the reason to check it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shadowprice.mapping.moments import EXCEL
from shadowprice.mapping.proposal.profile import Cells, Profile

NAMES: Mapping[str, tuple[str, ...]] = {
    "account_id": ("customer", "kunde", "account", "konto", "user", "member", "client"),
    "propensity": ("propens", "prob"),
    "decided_at": ("decided", "sent", "shown", "offered", "gesendet", "date"),
    "observed_at": ("observed", "settled", "redeemed", "result"),
    "face_value": ("face", "value", "wert", "discount", "incentive", "coupon", "voucher"),
    "offer_id": ("offer", "segment", "arm", "variant", "treat", "group", "message", "gruppe", "angebot"),
    "redeemed": ("redeem", "used", "eingel", "accepted", "converted", "bought"),
    "cost_paid": ("cost", "paid", "kosten"),
    "percent": ("percent", "pct", "prozent", "%"),
    "face_value of percent": ("max", "cap", "limit", "höchst"),
    "min_spend of percent": ("min", "least", "threshold", "mindest"),
    "expires_at": ("expir", "valid", "until", "gilt", "ablauf"),
    "collected_at": ("collect", "claim", "geholt", "date"),
    "redeemed_at": ("redeem", "used", "eingel"),
    "item_id": ("item", "product", "sku", "artikel"),
    "category": ("categor", "gruppe", "kategorie"),
    "brand": ("brand", "marke"),
    "price_level": ("price level", "price_level", "preisstufe"),
    "ts": ("time", "date", "zeit"),
    "ordered_at": ("order", "bestell", "purchas", "kauf", "created", "date", "datum"),
    "order_id": ("order", "bestell", "auftrag", "beleg", "rechnung", "invoice", "transac", "receipt"),
    "canceled": ("cancel", "storn", "refund", "return", "retour", "erstatt", "widerruf"),
    "refunded of order": ("refund", "erstatt", "storn"),
    "discount of order": ("discount", "rabatt", "nachlass", "coupon", "gutschein", "voucher", "remise"),
    "total of order": ("total", "amount", "betrag", "summe", "umsatz", "revenue", "warenkorb", "basket", "preis"),
    "code of order": ("code", "coupon", "gutschein", "voucher", "promo"),
    "amount of percent": ("order", "basket", "total", "amount", "warenkorb", "summe"),
}
"""Canonical column → parts of names that a user may have given it; the content of the column decides first."""
YES = frozenset(
    (
        *("1", "true", "t", "yes", "y", "on", "x", "✓", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "sim"),
        *("verdadero", "vero", "tak", "ano", "evet", "kyllä", "да", "так", "是", "はい", "예", "used", "redeemed"),
    )
)
EVEN = 4.0
"""Standard errors that the share of a value may be off where values were drawn evenly."""


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """Origin of a canonical column.

    own      the user's column; empty for a constant
    keys     further keys of the mapping, in order
    reason   why, in a few words
    check    whether only the user can tell that it is right
    """

    own: str = ""
    keys: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    reason: str = ""
    check: bool = False


def names_rows(cells: Cells) -> bool:
    """Return whether a column may identify the rows of its file."""
    return cells.unique and (cells.kind == "text" or cells.whole)


def is_value(cells: Cells, rows: Profile) -> bool:
    """Return whether a column may be the value of an offer: 2 to 50 amounts, not 0 and 1 alone.

    Numbers up to 1 are shares or flags, unless a name or a currency tells that they are amounts.
    """
    if cells.kind != "number" or len(cells.values) < 2 or hinted(cells, "propensity"):
        return False
    amounts = {rows.number(value) for value in cells.values}
    told = hinted(cells, "face_value") or cells.currency
    return min(amounts) >= 0 and amounts != {0.0, 1.0} and (max(amounts) > 1 or bool(told))


def drawn(cells: Cells) -> Proposed:
    """Return the probability of each value, as its share of the rows."""
    total = sum(cells.values.values())
    even = 1 / len(cells.values)
    off = EVEN * math.sqrt(even * (1 - even) / total)
    if all(abs(rows / total - even) <= off for rows in cells.values.values()):
        reason = f"each of {len(cells.values)} values has the same share: right if they were drawn at random"
        return Proposed(keys={"constant": f"{even:.6g}"}, reason=reason, check=True)
    shares = {value: f"{rows / total:.6g}" for value, rows in cells.values.items()}
    reason = "share of each value in the rows: right only if they were drawn at random, the same for all"
    return Proposed(own=cells.name, keys={"values": shares}, reason=reason, check=True)


def flag(cells: Cells, check: bool) -> Proposed:
    """Return the column of two values as 0 and 1; ``check`` where another column may be meant."""
    words = list(cells.values)
    if set(words) == {"0", "1"}:
        return Proposed(own=cells.name, reason="0 or 1", check=check)
    yes = {word for word in words if _meant(word) in YES}
    known = 0 < len(yes) < len(words) and len(set(map(_meant, yes))) == 1
    chosen = yes if known else {words[-1]}
    values = {word: "1" if word in chosen else "0" for word in words}
    reason = "two values" if known else f"two values; the rarer one, {words[-1]}, is taken for redeemed"
    return Proposed(own=cells.name, keys={"values": values}, reason=reason, check=check or not known)


def says_yes(cells: Cells) -> bool:
    """Return whether one of a column's values means yes, and another one does not."""
    yes = sum(_meant(word) in YES for word in cells.values)
    return 0 < yes < len(cells.values)


def has_two_values(cells: Cells) -> bool:
    """Return whether a column has two values, whatever their case: TRUE, true and false are two."""
    return cells.kind != "time" and len(set(map(_meant, cells.values))) == 2


def _meant(word: str) -> str:
    """Return what a word is compared as: a whole number without its decimals, a text without its case."""
    return re.sub(r"^[+]?([0-9]+)[.,]0+$", r"\1", word).casefold()


def time_keys(cells: Cells) -> dict[str, str]:
    """Return the keys of the mapping that read a time."""
    return {"format": cells.format} if cells.format else {}


def time_reason(cells: Cells, reason: str) -> str:
    """Return the reason of a time, with a warning where its format is not certain."""
    if "%y" in cells.format and cells.first is not None:
        reason += f"; years of two digits are read as {cells.first.year}"
    if cells.format and "%" not in cells.format:
        reason += (
            f"; its numbers are taken for {cells.format if cells.format == EXCEL else f'{cells.format} since 1970'}"
        )
    if cells.others:
        reason += f"; day, month or year may be swapped, as in {' and '.join(cells.others)}"
    return reason


def value_reason(cells: Cells) -> str:
    """Return the reason of the value of an offer, which only the user can tell from an age or a count."""
    question = f"the value of the offer? it has {len(cells.values)} values"
    if cells.currency or hinted(cells, "face_value"):
        return question
    return f"{question}, and its name does not tell: it may as well be an age or a count"


def likely_values(cells: Sequence[Cells]) -> list[Cells]:
    """Return the columns that may be the value of an offer, the likeliest first: by their name, then by a currency."""
    return sorted(cells, key=lambda each: (not hinted(each, "face_value"), not each.currency))


def hinted(cells: Cells, name: str) -> bool:
    """Return whether the name of a column fits a canonical one."""
    return any(part in cells.name.casefold() for part in NAMES[name])


def named(cells: Sequence[Cells], name: str) -> list[Cells]:
    """Return the columns whose names fit, or all where none does."""
    return [cell for cell in cells if hinted(cell, name)] or list(cells)
