"""A place that holds accounts: one interface for files, ledgers and online stores."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from operations.erasure.record import Erasures


class Source(Protocol):
    """A file or a store.

    place  its path or address
    owned  whether its rows name accounts; those of others, such as outcomes, name requests
    """

    place: str
    owned: bool

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of an account, or of its requests where rows name no account."""

    def erase(self, erasures: Erasures) -> int:
        """Replace identifiers by their pseudonyms, whole or not at all, and return the number of changed rows.

        Calling again changes nothing, and finishes a call that was interrupted.
        """

    def mentions(self, account: str) -> int:
        """Return the number of rows or lines that still contain the identifier as a word."""


def word(account: str) -> str:
    """Return a regular expression, of Python and of RE2, that finds an identifier as a word.

    >>> bool(re.search(word("m-1"), '{"shop":"m-1"}')), bool(re.search(word("m-1"), "m-12"))
    (True, False)
    """
    written = account, html.escape(account), json.dumps(account)[1:-1], json.dumps(account, ensure_ascii=False)[1:-1]
    return rf"(?:^|[^\w-])(?:{'|'.join(map(re.escape, dict.fromkeys(written)))})(?:$|[^\w-])"
