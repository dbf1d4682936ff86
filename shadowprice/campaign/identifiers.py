"""The rule of identifiers, and of texts that requests are compared by, in tables and in calls of the services."""

MOST_CHARACTERS = 256
"""Characters of an identifier at most."""
IDENTIFIER_RULE = f"must be a string of 1 to {MOST_CHARACTERS} printable characters"
NOT_PRINTABLE = "; a no-break space, a character without width and a line break are not printable"


def is_identifier(value: object) -> bool:
    """Return whether a value may serve as an identifier: 1 to :data:`MOST_CHARACTERS` printable characters.

    >>> is_identifier("K1"), is_identifier("K1\\u00a0")
    (True, False)
    """
    return isinstance(value, str) and 0 < len(value) <= MOST_CHARACTERS and value.isprintable()
