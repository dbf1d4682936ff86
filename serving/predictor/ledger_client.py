"""The predictor's side of authorising, over connections that are kept."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import orjson

from serving.http.tokens import Tokens
from serving.predictor.connection import Connection, connect
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.pacing.decision_log.records import REQUIRED, Decision, columns

TIMEOUT_SECONDS = 2.0


def proposals_class(record: type) -> Any:
    """Return the message of proposed decisions, as columns, for the fields of a record class."""
    sent = [column for column in columns(record) if column.field.sent]
    required = [column.name for column in sent if column.earlier is REQUIRED]
    added = [
        (column.name, "list[Any] | None", field(default=None)) for column in sent if column.earlier is not REQUIRED
    ]
    versions = [(name, "list[Any] | None", field(default=None)) for name in ("model_version", "price_version")]
    return make_dataclass("Proposals", [*required, "response_unpaid", *added, *versions], frozen=True)


def authorised_class(record: type) -> Any:
    """Return the message of recorded decisions, as columns, for the fields of a record class."""
    names = [column.name for column in columns(record) if column.field.returned]
    return make_dataclass("Authorised", [*names, "repeat"], frozen=True)


if TYPE_CHECKING:

    class Proposals:
        """Columns of the fields of a decision; the type checker cannot list them."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **columns: object) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    class Authorised(Proposals):
        """Columns of the fields that are returned."""

else:
    Proposals = proposals_class(Decision)
    """Proposed decisions of n requests; lists of length n.

    ``response_unpaid``: expected response without money. ``model_version``, ``price_version``: those that each was
    decided with; None: those of the message.
    """
    Authorised = authorised_class(Decision)
    """Decisions that the ledger holds for n requests; lists of length n. ``repeat``: decided before."""


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
class Authorisation:
    """The ledger's answer to several calls.

    decisions  of the proposals of the accepted calls, then of the known requests at ``known``
    known      rows of the known requests that were decided before
    errors     of each call: why it is refused, or None
    """

    decisions: Authorised
    known: list[int]
    errors: list[str | None]


class Authoriser:
    """Ask the ledger of one campaign, with the newest token of the role decide. Not thread-safe, except ``check``."""

    def __init__(self, url: str, campaign: str, tokens: Tokens | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidInput(f"must look like http://host:port, got {url!r}", field="ledger_url")
        self._host, self._port = parts.hostname, parts.port or 80
        self._campaign = campaign
        self._tokens = tokens
        self._head = (
            f"POST /v1/authorizations HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        ).encode()
        self._idle: list[Connection] = []

    async def authorise(
        self,
        proposals: Proposals,
        known: KnownRequests | None = None,
        *,
        sizes: Sequence[int] | None = None,
        model_version: str,
        price_version: int,
    ) -> Authorisation:
        """Record the proposals of several calls, each call all or none, and look up the known requests. One message.

        A call is refused alone where a request id was used before for another account or side.

        Args:
            proposals: of all calls, in order.
            known: requests of the same calls whose earlier decisions are wanted.
            sizes: proposals of each call; None: all are one call.
            model_version, price_version: those of the proposals that name none of their own.

        Raises:
            Unavailable: the ledger does not answer, or not as a ledger does, or there is no token to show it.
        """
        shown = b"" if self._tokens is None else f"Authorization: Bearer {self._tokens.secret('decide')}\r\n".encode()
        known = known or KnownRequests()
        sizes = [len(proposals.request_id)] if sizes is None else list(sizes)
        message: dict[str, Any] = {
            "campaign": self._campaign,
            "model_version": model_version,
            "price_version": price_version,
            "sizes": sizes,
        }
        if proposals.request_id:
            message["items"] = proposals
        if known.request_id:
            message["known"] = known
        body = orjson.dumps(message)
        status, answer = await self._exchange(
            b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, shown, len(body), body)
        )
        try:
            content = orjson.loads(answer)
            if status != 200:
                raise Unavailable(f"the ledger refuses to authorise ({status}): {content.get('error')}")
            found = Authorisation(Authorised(**content["decisions"]), content["known"], content["errors"])
            matches = _matches(found, proposals, known, sizes)
        except (orjson.JSONDecodeError, KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(f"the ledger answers what no ledger answers: {error!r}") from error
        if not matches:
            raise Unavailable("the ledger answers for other requests than it was asked about")
        return found

    def check(self, levels: Mapping[Side, Sequence[int]]) -> None:
        """Make sure that the ledger answers and keeps this campaign with ``levels``. Waits; for threads.

        Raises:
            Unavailable: it is not ready, or has another campaign, or other incentives of a side, in minor units.
        """
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
            told = dict(orjson.loads(answer))
        except (orjson.JSONDecodeError, TypeError, ValueError):
            told = {}
        campaign = told.get("campaign")
        if status != 200 or campaign != self._campaign:
            why = f": {told['error']}" if "error" in told else ""
            raise Unavailable(f"the ledger is not ready for {self._campaign!r} ({status}, campaign {campaign!r}){why}")
        # Ledgers of earlier releases return no levels.
        own = {side: list(incentives) for side, incentives in levels.items()}
        if told.get("levels", own) != own:
            raise Unavailable(
                f"the ledger has the sides and levels {told['levels']} for {self._campaign!r}, "
                f"and the predictor {own}; give both the same campaign file"
            )

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


def _matches(found: Authorisation, proposals: Proposals, known: KnownRequests, sizes: Sequence[int]) -> bool:
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
