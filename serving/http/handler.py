"""Request handler of a service: admits every request, reads its body, and answers the routes that must be fast.

The framework's routing, middlewares and response objects cost as much as deciding does.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.http.access import Access
from serving.http.admission import Admission, Hold
from serving.http.limits import CONFLICT_SECONDS, MAX_BODY_BYTES, PAUSE_BYTES, SMALL_BODY
from serving.http.refused import BodyTooLarge, Overloaded, TooManyCalls, TooSlow, Unauthorized
from serving.http.tokens import Caller
from serving.http.web import read_body, refusal
from shadowprice.errors import Conflict, InvalidRequest, ShadowpriceError, Unavailable

logger = logging.getLogger("serving")
Result = TypeVar("Result")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[bytes, Caller], Awaitable[bytes]]
"""From the body of a POST and its caller to the JSON of a 200; refuses with a :class:`ShadowpriceError`."""

REQUEST_SECONDS = 10.0
"""A body that takes longer to arrive, or an answer that takes longer to find, is given up."""
CONNECTION = "shadowprice.connection"
"""Key of a scope: its :class:`Connection`."""
UNREAD = (401, 403, 408, 413, 415, 429)
"""Statuses of refusals before the whole body is read."""


class Connection(Protocol):
    """Connection of a request, as its answer sees it."""

    def admit(self) -> None:
        """Note that a request was admitted."""

    def spend(self, seconds: float) -> None:
        """Count processor time of the request."""


class Gone(Exception):
    """The caller has hung up."""


class RequestHandler:
    """Answers POSTs to the paths of ``handlers``; ``application`` answers all other requests.

    Every request is admitted and its body read here, so that each route has the same bounds.

    access     roles, rates and headers; None: nothing is asked for but JSON
    seconds    for the body to arrive, and again for the answer of a handler
    admission  bound of the bytes of all bodies
    """

    def __init__(
        self,
        application: Application,
        handlers: Mapping[str, Handler],
        access: Access | None = None,
        seconds: float = REQUEST_SECONDS,
        admission: Admission | None = None,
    ) -> None:
        self._application = application
        self._handlers = handlers
        self._access = access or Access()
        self._seconds = seconds
        self._admission = admission or Admission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI asks for it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        handler = self._handlers.get(scope["path"]) if scope["method"] == "POST" else None
        body = b""
        with self._admission.hold() as hold:
            try:
                _check_address(scope)
                scope["caller"] = self._access.admit(scope)
                if self._access.has_tokens:
                    _admit(scope)
                body = await self._read(receive, hold)
                _admit(scope)
                if handler is not None:
                    status, content = 200, await self._answer(handler, body, scope["caller"])
            except Gone:
                return
            except ShadowpriceError as error:
                await send_refusal(error, _paused(send, len(body), hold))
                return
            except Exception:
                logger.exception("POST %s failed", scope["path"])
                status, content = 500, b'{"error":"internal error; see the log of the service"}'
            if handler is None:
                await self._application(scope, _replaying(body, receive), _paused(send, len(body), hold))
            else:
                await send_answer(send, status, content)

    async def _read(self, receive: Receive, hold: Hold) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await _read(receive, hold)
        except TimeoutError:
            raise TooSlow(f"body: did not arrive within {self._seconds:.0f} s") from None

    async def _answer(self, handler: Handler, body: bytes, caller: Caller) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await handler(body, caller)
        except TimeoutError:
            raise Unavailable(f"no answer within {self._seconds:.0f} s; send the request again") from None


def in_framework(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The handler as an endpoint of the framework, which describes it and answers other methods."""

    @wraps(handler)
    async def endpoint(request: Request) -> Response:
        return Response(await handler(await read_body(request), request.scope["caller"]), media_type="application/json")

    return endpoint


async def in_thread(request: Request, work: Callable[[], Result]) -> Result:
    """Run on a thread, and count its processor time as that of the request's connection."""
    connection: Connection | None = request.scope.get(CONNECTION)

    def timed() -> tuple[Result, float]:
        started = time.thread_time()
        return work(), time.thread_time() - started

    result, seconds = await run_in_threadpool(timed)
    if connection is not None:
        connection.spend(seconds)
    return result


def pause(status: int, size: int) -> float:
    """Return the seconds before a refusal is sent: one connection cannot make a service parse garbage all the time.

    A large body costs its sender what it cost the service, and so does a conflict, which the ledger had to look up.
    """
    if not 400 <= status < 500:
        return 0.0
    return max(0, size - SMALL_BODY) / PAUSE_BYTES + (CONFLICT_SECONDS if status == Conflict.status else 0.0)


def _check_address(scope: Scope) -> None:
    """Refuse an address that is no text: a framework would put other characters into its identifiers."""
    address = scope.get("raw_path", b"") + scope.get("query_string", b"")
    if b"%" not in address:
        return
    try:
        unquote_to_bytes(address).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("must be UTF-8, percent-encoded", field="address") from None


def _admit(scope: Scope) -> None:
    """Tell the connection that it has an admitted caller: one with a token, or with a whole request for a role."""
    connection: Connection | None = scope.get(CONNECTION)
    if connection is not None and scope["caller"].roles:
        connection.admit()


def _paused(send: Send, size: int, hold: Hold) -> Send:
    """Send an answer after the :func:`pause` of its status, without the bytes of its body."""

    async def later(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start" and (seconds := pause(event["status"], size)):
            hold.release()
            await asyncio.sleep(seconds)
        await send(event)

    return later


async def send_refusal(error: ShadowpriceError, send: Send) -> None:
    """Answer with an error's status; the connection ends where a part of the body may be unread."""
    headers: list[tuple[bytes, bytes]] = []
    if error.status in UNREAD or isinstance(error, Overloaded):
        headers.append((b"connection", b"close"))
    if error.status == Unauthorized.status:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, TooManyCalls | Overloaded):
        headers.append((b"retry-after", b"%d" % error.retry_after))
    await send_answer(send, error.status, orjson.dumps(refusal(error)), headers)


async def send_answer(
    send: Send,
    status: int,
    content: bytes,
    headers: Sequence[tuple[bytes, bytes]] = (),
    kind: bytes = b"application/json",
) -> None:
    """Send a whole answer."""
    own = [(b"content-type", kind), (b"content-length", b"%d" % len(content)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": content})


async def _read(receive: Receive, hold: Hold) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(f"is longer than {MAX_BODY_BYTES} bytes; send fewer items per call", field="body")
        hold.add(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunk if len(chunks) == 1 else b"".join(chunks)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body that was read, and then what the connection gives."""
    unread: list[bytes] = [body]

    async def replay() -> MutableMapping[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay
