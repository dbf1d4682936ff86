"""The predictor's side of authorising, over connections that are kept."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from serving.connection import Connection, connect
from shadowprice.campaign import Side
from shadowprice.errors import Conflict, InvalidInput, Unavailable

TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Proposals:
    """What the predictor would like to promise for n requests; lists of length n.

    response_unpaid  expected response if the money is refused
    propensities     probability of each level of the side
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
    """Asks the ledger of one campaign, showing ``token`` where it wants one. Of one event loop, but for ``check``."""

    def __init__(self, url: str, campaign: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidInput(f"must look like http://host:port, got {url!r}", field="ledger_url")
        self._host, self._port = parts.hostname, parts.port or 80
        self._campaign = campaign
        shown = "" if token is None else f"Authorization: Bearer {token}\r\n"
        self._head = (
            f"POST /v1/authorizations HTTP/1.1\r\nHost: {parts.netloc}\r\n{shown}"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._idle: list[Connection] = []

    async def authorise(self, proposals: Proposals, *, model_version: str, price_version: int) -> Authorised:
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
        status, answer = await self._exchange(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
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

    def check(self) -> None:
        """Make sure that the ledger answers and keeps this campaign, or :class:`Unavailable`. Waits; for threads."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        try:
            campaign = orjson.loads(answer).get("campaign")
        except (orjson.JSONDecodeError, AttributeError):
            campaign = None
        if status != 200 or campaign != self._campaign:
            raise Unavailable(f"the ledger is not ready for {self._campaign!r} ({status}, campaign {campaign!r})")

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                kept = self._kept()
                if kept is not None:
                    # It may have been closed meanwhile. Authorising is idempotent, so once more.
                    with suppress(OSError):
                        return await self._once(kept, request)
                return await self._once(await connect(self._host, self._port), request)
        except OSError as error:
            raise self._silent(error) from error

    async def _once(self, connection: Connection, request: bytes) -> tuple[int, bytes]:
        answer = await connection.exchange(request)
        if connection.open:
            self._idle.append(connection)
        return answer

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        return None

    def _silent(self, error: Exception) -> Unavailable:
        return Unavailable(f"the ledger at {self._host}:{self._port} does not answer: {error!r}")
