"""The predictor's side of authorising: one keep-alive connection per thread."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import dataclass
from threading import local
from urllib.parse import urlsplit

import orjson

from shadowprice.errors import Conflict, InvalidInput, Unavailable

TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Proposal:
    """What the predictor would like to promise for one request.

    response_unpaid  expected response if the money is refused
    propensities     probability of each level, for the log
    features_at      when the features were computed, seconds since 1970 (UTC); None where there were none
    """

    request_id: str
    account_id: str
    side: str
    level: int
    incentive: int
    response: float
    expected_cost: float
    propensity: float
    reason: str
    response_unpaid: float
    propensities: list[float] | None = None
    features_at: float | None = None


@dataclass(frozen=True)
class Authorised:
    """What the ledger holds for one request; ``repeat`` when it was decided before."""

    request_id: str
    level: int
    incentive: int
    response: float
    expected_cost: float
    propensity: float
    reason: str
    repeat: bool


class Authoriser:
    """Asks the ledger of one campaign, showing ``token`` where it wants one. Safe to share between threads."""

    def __init__(self, url: str, campaign: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidInput(f"must look like http://host:port, got {url!r}", field="ledger_url")
        self._host, self._port = parts.hostname, parts.port or 80
        self._campaign = campaign
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._threads = local()

    def authorise(self, proposals: Sequence[Proposal], *, model_version: str, price_version: int) -> list[Authorised]:
        """Record the proposals, all or none, and return what stands for each, in order.

        Raises:
            Conflict: a request id was used before for another account or side.
            Unavailable: the ledger does not answer, or not as a ledger does.
        """
        body = orjson.dumps(
            {
                "campaign": self._campaign,
                "model_version": model_version,
                "price_version": price_version,
                "items": list(proposals),
            }
        )
        status, answer = self._exchange("POST", "/v1/authorizations", body)
        try:
            content = orjson.loads(answer)
            if status == Conflict.status:
                raise Conflict(content["error"])
            if status != 200:
                raise Unavailable(f"the ledger refuses to authorise ({status}): {content.get('error')}")
            decisions = [Authorised(**decision) for decision in content["decisions"]]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"the ledger answers what no ledger answers: {error!r}") from error
        if [decision.request_id for decision in decisions] != [proposal.request_id for proposal in proposals]:
            raise Unavailable("the ledger answers for other requests than it was asked about")
        return decisions

    def close(self) -> None:
        """Close the connection of the thread that calls."""
        connection: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if connection is not None:
            connection.close()
            self._threads.connection = None

    def check(self) -> None:
        """Make sure that the ledger answers and keeps this campaign, or :class:`Unavailable`."""
        status, answer = self._exchange("GET", "/readyz", None)
        try:
            campaign = orjson.loads(answer).get("campaign")
        except (orjson.JSONDecodeError, AttributeError):
            campaign = None
        if status != 200 or campaign != self._campaign:
            raise Unavailable(f"the ledger is not ready for {self._campaign!r} ({status}, campaign {campaign!r})")

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        fresh = getattr(self._threads, "connection", None) is None
        try:
            return self._once(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            # A kept connection may have been closed meanwhile. Authorising is idempotent, so once more.
            if not fresh and not isinstance(error, TimeoutError):
                try:
                    return self._once(method, path, body)
                except (OSError, http.client.HTTPException) as again:
                    error = again
            raise Unavailable(f"the ledger at {self._host}:{self._port} does not answer: {error!r}") from error

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_SECONDS)
            self._threads.connection = connection
        try:
            content = {"content-type": "application/json"} if body else {}
            connection.request(method, path, body, self._headers | content)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()
            self._threads.connection = None
            raise
