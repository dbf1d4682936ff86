"""The predictor's side of authorising: one keep-alive connection per thread."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from threading import local
from urllib.parse import urlsplit

import orjson

from shadowprice.campaign import Side
from shadowprice.errors import Conflict, InvalidInput, Unavailable

TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Proposals:
    """What the predictor would like to promise for n requests; lists of length n.

    response_unpaid  expected response if the money is refused
    propensities     probability of each level, for the log
    features_at      when the features were computed, seconds since 1970 (UTC); None where there were none
    """

    request_id: list[str]
    account_id: list[str]
    side: list[Side]
    level: list[int]
    incentive: list[int]
    response: list[float]
    expected_cost: list[float]
    propensity: list[float]
    reason: list[str]
    response_unpaid: list[float]
    propensities: list[list[float]]
    features_at: list[float | None]


@dataclass(frozen=True)
class Authorised:
    """What the ledger holds for n requests, lists of length n; ``repeat`` where one was decided before."""

    request_id: list[str]
    level: list[int]
    incentive: list[int]
    response: list[float]
    expected_cost: list[float]
    propensity: list[float]
    reason: list[str]
    repeat: list[bool]


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

    def authorise(self, proposals: Proposals, *, model_version: str, price_version: int) -> Authorised:
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
                "items": proposals,
            }
        )
        status, answer = self._exchange("POST", "/v1/authorizations", body)
        try:
            content = orjson.loads(answer)
            if status == Conflict.status:
                raise Conflict(content["error"])
            if status != 200:
                raise Unavailable(f"the ledger refuses to authorise ({status}): {content.get('error')}")
            authorised = Authorised(**content["decisions"])
            sizes = {len(column) for column in vars(authorised).values()}
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"the ledger answers what no ledger answers: {error!r}") from error
        if authorised.request_id != proposals.request_id or len(sizes) > 1:
            raise Unavailable("the ledger answers for other requests than it was asked about")
        return authorised

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
