"""SQL of numbers and amounts of money in the forms that people write."""

import re

from shadowprice.currency import Currency
from shadowprice.mapping.description import Column, Mapping, Source
from shadowprice.mapping.opened import literal, matches, refused, trimmed

SIGNS = {
    **dict.fromkeys(("USD", "AUD", "CAD", "NZD", "SGD", "HKD", "MXN", "TWD"), ("$",)),
    "CNY": ("¥", "元", "RMB"),
    "JPY": ("¥", "￥", "円"),
    "INR": ("₹", "Rs.", "Rs"),
    "KRW": ("₩", "원"),
    "RUB": ("₽", "руб.", "руб"),
    "TRY": ("₺", "TL"),
    "PLN": ("zł",),
    "CHF": ("Fr.", "SFr."),
    "BRL": ("R$",),
    "ILS": ("₪",),
    "VND": ("₫", "đ"),
    "UAH": ("₴",),
    "NGN": ("₦",),
    "PHP": ("₱",),
    "THB": ("฿",),
    **dict.fromkeys(("SEK", "NOK", "DKK", "CZK"), ("kr.", "kr", "Kč")),
}
"""Currency → what is written before or after an amount besides its code and the sign that reports have."""
SPACE_SIGNS = " \u00a0\u202f\u2009"
"""Spaces that group thousands; a source that names one of them has any."""


def signs_of(currency: str) -> tuple[str, ...]:
    """Return what may stand before or after an amount of a currency, the longest first."""
    own = {currency, Currency.of(currency).symbol.strip(), *SIGNS.get(currency, ())}
    return tuple(sorted(own, key=lambda sign: (-len(sign), sign)))


def number_pattern(decimal: str, thousands: str) -> str:
    """Return the pattern of a number with these signs; groups have three digits, or two before the last as in India."""
    point, group = re.escape(decimal), _group(thousands)
    whole = rf"(?:[0-9]+|[0-9]{{1,3}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}})" if thousands else "[0-9]+"
    return rf"[+-]?{whole}(?:{point}[0-9]*)?|[+-]?{point}[0-9]+"


def number_sql(raw: str, source: Source, currency: str = "") -> str:
    """Return the SQL of a number with a point and without thousands.

    A typed number, and a constant, are written so already.

    Args:
        raw: SQL of the cell.
        source: with the signs of its numbers; one without a name for a constant.
        currency: whose signs may stand beside the number; empty: none.
    """
    text = trimmed(f"CAST({raw} AS VARCHAR)")
    if currency:
        signs = "|".join(re.escape(sign) for sign in signs_of(currency))
        space = rf"[{SPACE_SIGNS}]*"
        before, after = literal(rf"^([+-]?)(?:{signs}){space}"), literal(rf"{space}(?:{signs})$")
        text = f"regexp_replace(regexp_replace({text}, {before}, '\\1'), {after}, '')"
    if source.decimal == "." and not source.thousands:
        return text
    bare = text
    if source.thousands:
        group = literal(_group(source.thousands))
        # A sign that does not group would be left out: 1,5 would be read as 15.
        wrong = refused(f"has a {source.thousands!r} that does not group thousands", text)
        fits = matches(text, number_pattern(source.decimal, source.thousands))
        bare = f"""CASE WHEN NOT regexp_matches({text}, {group}) THEN {text}
            WHEN {fits} THEN regexp_replace({text}, {group}, '', 'g') ELSE {wrong} END"""
    number = bare
    if source.decimal != ".":
        # A point would become the decimal sign, so that 1.500 would be read as 1.5.
        hint = literal(f" has a point; decimal is {source.decimal}")
        point = f"replace({bare}, {literal(source.decimal)}, '.')"
        number = f"CASE WHEN contains({bare}, '.') THEN {text} || {hint} ELSE {point} END"
    return f"CASE WHEN regexp_matches(typeof({raw}), '^(FLOAT|DOUBLE|DECIMAL)') THEN {text} ELSE {number} END"


def amount_sql(text: str, column: Column, mapping: Mapping) -> str:
    """Return the SQL of whole minor units; an amount that is not whole is left as a fraction, which is refused."""
    digits = mapping.digits if (column.unit or mapping.unit) == "major" else 0
    amount = f"TRY_CAST({text} AS DECIMAL(28, 8)) * CAST({10**digits} AS DECIMAL(6, 0))"
    whole = f"CASE WHEN {amount} = trunc({amount}) THEN CAST(CAST({amount} AS HUGEINT) AS VARCHAR) END"
    return f"coalesce({whole}, CAST({amount} AS VARCHAR), {text})"


def _group(thousands: str) -> str:
    return f"[{SPACE_SIGNS}]" if thousands in SPACE_SIGNS and thousands else re.escape(thousands)
