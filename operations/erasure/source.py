"""Interface of places that hold accounts: files, ledgers and online stores."""

import html
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from operations.erasure.record import Erasures


class Source(ABC):
    """A file or a store.

    place  its path or address
    owned  whether its rows name accounts; those of others, such as outcomes, name requests
    """

    owned = True

    def __init__(self, place: object) -> None:
        self.place = str(place)

    @abstractmethod
    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of an account, or of its requests where rows name no account."""

    def erase(self, erasures: Erasures) -> int:  # noqa: ARG002 - nothing is replaced in a text
        """Replace identifiers by their pseudonyms, whole or not at all, and return the number of changed rows.

        Calling again changes nothing, and finishes a call that was interrupted.
        """
        return 0

    def mentions(self, account: str) -> int:
        """Return the number of rows that still contain the identifier, also as a word of another text."""
        return sum(1 for _ in self.rows(account, set()))


def word(account: str) -> str:
    """Return a regular expression, of Python and of RE2, for an identifier as a word; groups: what is around it.

    >>> [bool(re.search(word("m-1"), text)) for text in ('{"shop":"m-1"}', "trial-m-1", "m-12")]
    [True, True, False]
    """
    written = account, html.escape(account), json.dumps(account)[1:-1], json.dumps(account, ensure_ascii=False)[1:-1]
    return rf"(^|[^0-9A-Za-z])(?:{'|'.join(map(re.escape, dict.fromkeys(written)))})($|[^0-9A-Za-z])"
