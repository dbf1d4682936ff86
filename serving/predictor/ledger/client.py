"""Client of the ledger for the predictor, over kept connections."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from serving.http.limits import MAX_BODY_BYTES
from serving.http.tokens import Tokens
from serving.http.web import check_structure
from serving.predictor.ledger.columns import Authorized, Proposals
from serving.predictor.ledger.connection import Connection, connect
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, InvalidRequest, ShadowpriceError, Unavailable

TIMEOUT_SECONDS = 2.0
ATTEMPT_SECONDS = 0.8
"""Time of one of several replicas to answer, so that another can within the timeout."""
REFUSALS = (400, 413, 422)
"""Statuses of a message that the ledger does not take, whatever its state."""


@dataclass(frozen=True)
class KnownRequests:
    """n requests that the predictor proposes nothing for; lists of length n.

    call  the call each belongs to, from 0 on
    """

    request_id: list[str] = field(default_factory=list)
    account_id: list[str] = field(default_factory=list)
    side: list[Side] = field(default_factory=list)
    call: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Authorization:
    """The ledger's answer to several calls.

    decisions  of the proposals of the accepted calls, then of the known requests at ``known``
    known      rows of the known requests that were decided before
    errors     of each call: why it is refused, or None; a text is a conflict
    """

    decisions: Authorized
    known: list[int]
    errors: Sequence[str | ShadowpriceError | None]


class Authorizer:
    """Ask the ledger of one campaign, with the newest token of the role decide. Not thread-safe, except ``check``.

    ``urls`` are the addresses of its replicas, separated by commas, or one address in front of them. A replica that
    does not answer, or answers 503, is passed over for the next one: authorizing is idempotent.
    """

    def __init__(self, urls: str, campaign: str, tokens: Tokens | None = None) -> None:
        self._places = [_place(url) for url in urls.split(",")]
        self._campaign = campaign
        self._tokens = tokens
        self._first = 0
        self._idle: list[tuple[int, Connection]] = []

    async def authorize(
        self,
        proposals: Proposals,
        known: KnownRequests | None = None,
        *,
        sizes: Sequence[int] | None = None,
        model_version: str,
        price_version: int,
    ) -> Authorization:
        """Record the proposals of several calls, each call all or none, and look up the known requests. One message.

        A call is refused alone where a request id was used before for another account or side.

        Args:
            proposals: of all calls, in order.
            known: requests of the same calls whose earlier decisions are wanted.
            sizes: proposals of each call; None: all are one call.
            model_version, price_version: those of the proposals that name none of their own.

        Raises:
            InvalidRequest: the ledger does not take the message, with its status; a smaller one may be taken.
            Unavailable: the ledger does not answer, or not as a ledger does, or there is no token to show it.
        """
        shown = (
            b"" if self._tokens is None else f"Authorization: Bearer {self._tokens.secret('authorize')}\r\n".encode()
        )
        known = known or KnownRequests()
        sizes = [len(proposals.request_id)] if sizes is None else list(sizes)
        message: dict[str, Any] = {
            "campaign": self._campaign,
            "model_version": model_version,
            "price_version": price_version,
            "sizes": sizes,
        }
        if proposals.request_id:
            message["items"] = {name: column for name, column in vars(proposals).items() if column is not None}
        if known.request_id:
            message["known"] = known
        body = orjson.dumps(message)
        # The ledger's limits, before a transfer that it would end, and a pause that is longer than the timeout.
        if len(body) > MAX_BODY_BYTES:
            raise _refused(413, f"has more than {MAX_BODY_BYTES} bytes")
        try:
            check_structure(body)
        except InvalidRequest as error:
            raise _refused(error.status, error.reason) from None
        status, answer = await self._exchange(b"%bContent-Length: %d\r\n\r\n%b" % (shown, len(body), body))
        try:
            content = orjson.loads(answer)
            if status in REFUSALS:
                raise _refused(status, content.get("error"))
            if status != 200:
                raise Unavailable(f"the ledger refuses to authorize ({status}): {content.get('error')}")
            authorization = Authorization(Authorized(**content["decisions"]), content["known"], content["errors"])
            matches = _matches(authorization, proposals, known, sizes)
        except (orjson.JSONDecodeError, KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(f"the ledger answers what no ledger answers: {error!r}") from error
        if not matches:
            raise Unavailable("the ledger answers for other requests than were asked; check its version")
        return authorization

    def check(self, levels: Mapping[Side, Sequence[int]]) -> None:
        """Make sure that the ledger answers and keeps this campaign with ``levels``. Waits; for threads.

        Raises:
            Unavailable: no replica is ready with this campaign and the same incentives of each side, in minor units.
        """
        for place in self._places[:-1]:
            with suppress(Unavailable):
                return self._check(place, levels)
        return self._check(self._places[-1], levels)

    def _check(self, place: Place, levels: Mapping[Side, Sequence[int]]) -> None:
        connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", f"/readyz?campaign={self._campaign}")
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise _silent(place, error) from error
        finally:
            connection.close()
        try:
            facts = dict(orjson.loads(answer))
        except (orjson.JSONDecodeError, TypeError, ValueError):
            facts = {}
        campaign = facts.get("campaign")
        if status != 200 or campaign != self._campaign:
            why = f": {facts['error']}" if "error" in facts else ""
            raise Unavailable(f"the ledger is not ready for {self._campaign!r} ({status}, campaign {campaign!r}){why}")
        own = {side: list(incentives) for side, incentives in levels.items()}
        if facts.get("levels") != own:
            raise Unavailable(
                f"the ledger has the sides and levels {facts.get('levels')} for {self._campaign!r}, "
                f"and the predictor {own}; give both the same campaign file"
            )

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        failure: Exception | None = None
        refused: tuple[int, bytes] | None = None
        place = self._first
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                kept = self._kept()
                if kept is not None:
                    place, connection = kept
                    # It may have been closed meanwhile, or its replica.
                    with suppress(OSError):
                        answer = await self._attempt(place, request, connection)
                        if not self._passed_over(answer):
                            return answer
                    self._first = (place + (len(self._places) > 1)) % len(self._places)
                # One address may stand for several replicas, of which one has just ended.
                for _ in range(max(2, len(self._places))):
                    place = self._first
                    try:
                        answer = await self._attempt(place, request)
                        if not self._passed_over(answer):
                            return answer
                        refused = answer
                    except OSError as error:
                        failure = error
                    self._first = (place + 1) % len(self._places)
        except TimeoutError as error:
            self._forget(place)
            self._first = (place + 1) % len(self._places)
            failure = error
        if refused is not None:
            return refused
        raise _silent(self._places[self._first - 1], failure) from failure

    async def _attempt(self, place: int, request: bytes, connection: Connection | None = None) -> tuple[int, bytes]:
        """Ask one replica, over a kept connection or a new one.

        Raises:
            OSError: it does not answer; where there are others, not within the time of an attempt.
        """
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS if len(self._places) > 1 else None):
                if connection is None:
                    async with asyncio.timeout(TIMEOUT_SECONDS / 4):
                        connection = await connect(*self._places[place][:2])
                return await self._once(place, connection, request)
        except TimeoutError:
            self._forget(place)
            raise

    def _forget(self, place: int) -> None:
        """Close the idle connections to a silent replica; each of them would cost another timeout."""
        for address, connection in self._idle:
            if address == place:
                connection.close()
        self._idle = [kept for kept in self._idle if kept[0] != place]

    def _passed_over(self, answer: tuple[int, bytes]) -> bool:
        """Return whether another replica may answer better."""
        return answer[0] == Unavailable.status and len(self._places) > 1

    async def _once(self, place: int, connection: Connection, request: bytes) -> tuple[int, bytes]:
        answer = await connection.exchange(self._places[place].head + request)
        if connection.open:
            self._idle.append((place, connection))
        return answer

    def _kept(self) -> tuple[int, Connection] | None:
        while self._idle:
            place, connection = self._idle.pop()
            if connection.open:
                return place, connection
        return None


class Place(NamedTuple):
    """Address of a replica, and the first lines of every request to it."""

    host: str
    port: int
    head: bytes


def _place(url: str) -> Place:
    parts = urlsplit(url.strip())
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidInput(f"must look like http://host:port, got {url!r}", field="ledger_url")
    lines = f"POST /v1/authorizations HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    return Place(parts.hostname, parts.port or 80, lines.encode())


def _refused(status: int, reason: object) -> InvalidRequest:
    error = InvalidRequest(f"the ledger does not take the message: {reason}; send fewer requests in a call")
    error.status = status
    return error


def _silent(place: Place, error: Exception | None) -> Unavailable:
    return Unavailable(f"the ledger at {place.host}:{place.port} does not answer: {error!r}")


def _matches(found: Authorization, proposals: Proposals, known: KnownRequests, sizes: Sequence[int]) -> bool:
    """Check that the answer has one row for each proposal of an accepted call and each known request."""
    request_ids: list[str] = []
    start = 0
    for size, error in zip(sizes, found.errors, strict=True):
        if error is None:
            request_ids += proposals.request_id[start : start + size]
        start += size
    request_ids += [known.request_id[row] for row in found.known]
    columns = vars(found.decisions).values()
    return found.decisions.request_id == request_ids and {len(column) for column in columns} == {len(request_ids)}
