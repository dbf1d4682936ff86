"""Numbers and money in the form a person reads."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.currency import MISSING as MISSING
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate

LOWEST = "the lowest incentive"
"""Name of the level that gains are counted from, where no offer has the name of a control."""


def money(minor: float, currency: Currency) -> str:
    """Minor units as an amount of major units, with the decimals of the currency; or a number of offers.

    >>> money(1250, Currency.of("USD")), money(1250, Currency.of("offers")), money(0.5, Currency.of("offers"))
    ('$12.50', '1,250 offers', '0.5 offers')
    """
    return currency.write(minor)


def incentives(levels: ArrayLike, currency: Currency) -> tuple[NDArray[np.float64], str]:
    """Incentive levels (J,) in major units, and the name of these."""
    return np.asarray(levels, dtype=np.float64) / currency.unit, currency.major


def number(value: object, digits: int = 4) -> str:
    """A count with separators, or a quantity with ``digits`` significant digits; texts stay as they are."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, (float, np.floating)):
        return _quantity(float(value), digits).replace("-", "−")
    return str(value)


def _quantity(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value and not 1e-4 <= abs(value) < 1e15:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage."""
    return f"{100 * share:.{digits}f} %".replace("-", "−") if math.isfinite(share) else MISSING


def estimate(found: float | Estimate, digits: int = 4) -> str:
    """A value, with its interval in brackets where it has some width; a dash where it is not known."""
    if isinstance(found, Estimate) and found.low == found.high:
        return number(found.value, digits)
    if isinstance(found, Estimate):
        if not math.isfinite(found.value):
            return MISSING
        value, low, high = (_padded(bound, digits) for bound in (found.value, found.low, found.high))
        return f"{value} [{low}, {high}]"
    return number(found, digits)


def interval(found: Estimate, digits: int = 3) -> str:
    """Limits of an estimate in brackets; empty where they have no width."""
    return "" if found.low == found.high else f"[{rounded(found.low, digits)}, {rounded(found.high, digits)}]"


def signed(value: float, digits: int = 3) -> str:
    """A quantity with its sign."""
    return f"{'+' if value > 0 else ''}{rounded(value, digits)}"


def rounded(value: float, digits: int = 3) -> str:
    """A sum of many responses: without decimals from 100 on, where they mean nothing."""
    return number(float(round(value)) if math.isfinite(value) and abs(value) >= 100 else value, digits)


def _padded(value: float, digits: int) -> str:
    """Format like :func:`number`, with the zeros that show how many digits count."""
    if 1e-4 <= abs(value) < 10 ** (digits - 1):
        return f"{value:#.{digits}g}".rstrip(".").replace("-", "−")
    return number(value, digits)


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days: the largest unit of which there are two; a dash where it was not measured."""
    if not math.isfinite(seconds):
        return "–"
    if seconds >= 172_800:
        return f"{int(seconds // 86_400)} days"
    if seconds >= 7200:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    if seconds >= 120:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def clipped(text: str, most: int = 40) -> str:
    """Text on one line of at most ``most`` characters, for places that cannot grow."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def listed(words: Iterable[str]) -> str:
    """Words joined as in a sentence."""
    all_words = list(words)
    return all_words[0] if len(all_words) == 1 else ", ".join(all_words[:-1]) + " and " + all_words[-1]
