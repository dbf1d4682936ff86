"""SQL of texts: spaces around them, patterns, and cells that are refused for a reason that is known."""

from shadowprice.mapping.opened import literal
from shadowprice.tables.coercion import REFUSED

SPACES = " \t\u00a0\u2007\u202f\u200b\ufeff"
"""Characters that may stand around a number, a time or a flag: those of spreadsheets and web pages too."""


def trimmed(text: str) -> str:
    """Return a text without the spaces around it."""
    # A text of ASCII has as many bytes as characters; trimming it takes a third of the time.
    return f"CASE WHEN strlen({text}) = length({text}) THEN trim({text}) ELSE trim({text}, {literal(SPACES)}) END"


def matches(text: str, pattern: str) -> str:
    """Return whether a whole text matches a pattern."""
    return f"regexp_full_match({text}, {literal(pattern)})"


def refused(reason: str, text: str) -> str:
    """Return a cell that the check of the tables refuses for this reason."""
    return f"{literal(REFUSED + reason + REFUSED)} || {text}"
