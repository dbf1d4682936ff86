"""Authorize the rows of a list in the ledger, in bulk."""

import http.client
import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self
from urllib.parse import urlsplit

from operations.common.ledger_tokens import token_of
from shadowprice.errors import Conflict, InvalidRequest, Unavailable

PATH = "/v1/authorizations"
ITEMS = 1000
"""Rows of one call: the most that the ledger takes."""
CALLERS = 4
"""Calls under way at once; those that wait share a commit of the ledger."""
TRIES = 6
"""Attempts of a call that gets no answer; authorizing is idempotent."""
TIMEOUT_SECONDS = 60.0


class BulkAuthorizer:
    """Authorizes rows of one campaign, at most :data:`ITEMS` in a call, over connections that are kept for the block.

    Args:
        url: of the ledger.
        message: fields of every call besides the items.
    """

    def __init__(self, url: str, message: Mapping[str, Any]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unavailable(f"{url}: must be an http or https address")
        self._url, self._message, self._own = parts, message, threading.local()
        self._pool, self._opened = ThreadPoolExecutor(CALLERS), list[http.client.HTTPConnection]()
        self._headers = {"content-type": "application/json"}
        if token := token_of("authorize"):
            self._headers["authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def authorize(self, items: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Record n decisions, given as columns, and return those that the ledger holds, in their order.

        Raises:
            Conflict: a request id stands for another account.
            InvalidRequest: the ledger refuses the content, such as levels of another campaign file.
            Unavailable: the ledger does not answer.
        """
        n = len(items["request_id"])
        calls = [{name: column[at : at + ITEMS] for name, column in items.items()} for at in range(0, n, ITEMS)]
        answers = list(self._pool.map(self._call, calls))
        return {name: [value for answer in answers for value in answer[name]] for name in answers[0]} if answers else {}

    def _call(self, items: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        body = json.dumps({**self._message, "items": items}, separators=(",", ":")).encode()
        status, answer = self._exchange(body)
        try:
            content = json.loads(answer)
            if status != 200:
                refused = InvalidRequest if 400 <= status < 500 else Unavailable
                raise refused(f"the ledger refuses the list ({status}): {content.get('error')}")
            if (conflict := content["errors"][0]) is not None:
                raise Conflict(str(conflict))
            decisions: dict[str, list[Any]] = content["decisions"]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self._url.netloc} answers what no ledger answers: {error!r}") from error
        if decisions["request_id"] != items["request_id"]:
            raise Unavailable("the ledger answers for other requests than were asked; check its version")
        return decisions

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        failure: Exception | int = 0
        for attempt in range(TRIES):
            if attempt:
                time.sleep(0.1 * 2**attempt)
            connection = self._connection()
            try:
                connection.request("POST", PATH, body, self._headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                failure = error
                continue
            if answer.status not in (429, 503):
                return answer.status, content
            failure = answer.status
        raise Unavailable(f"the ledger at {self._url.netloc} does not answer ({failure!r}); run the same job again")

    def _connection(self) -> http.client.HTTPConnection:
        """Return the connection of this thread; a closed one opens itself again."""
        kept: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if kept is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            kept = self._own.connection = kind(self._url.hostname or "", self._url.port, timeout=TIMEOUT_SECONDS)
            self._opened.append(kept)
        return kept
