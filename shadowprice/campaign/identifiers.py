"""Rules of names, identifiers and texts that requests are compared by, in tables and in calls of the services."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
NAME_RULE = "must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit"
"""A campaign's name is a path, a label of metrics and the name of a served model."""

MODEL_VERSION = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""A model's version is a path and part of a feature view's name: it never leads to another folder."""

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
