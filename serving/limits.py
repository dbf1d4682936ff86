"""Limits on what callers may send, the same for the predictor and the ledger."""

from __future__ import annotations

MAX_ID_LENGTH = 256
"""Characters of a request, account or event identifier."""
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 1000
"""Instances, authorisations or events in one call, unless configured otherwise."""
MAX_MINOR_UNITS = 10**15
"""Largest amount in one message; far below what an INT64 or a double holds exactly."""


def is_identifier(value: object) -> bool:
    """Whether a value may serve as an identifier: 1 to :data:`MAX_ID_LENGTH` printable characters."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


IDENTIFIER_RULE = f"must be a string of 1 to {MAX_ID_LENGTH} printable characters"
