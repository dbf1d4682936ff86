"""The prediction endpoints, ahead of the web framework: a path is looked up and its handler awaited.

The framework's routing, middlewares and response objects cost as much as deciding does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import wraps
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from serving.ledger.guard import permits
from serving.limits import MAX_BODY_BYTES
from serving.web import BodyTooLarge, read_body, refusal
from shadowprice.errors import ShadowpriceError, Unavailable

logger = logging.getLogger("serving")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[bytes], Awaitable[bytes]]
"""From the body of a POST to the JSON of a 200; refuses with a :class:`ShadowpriceError`."""

REQUEST_SECONDS = 10.0
"""A body that takes longer to arrive, or an answer that takes longer to find, is given up."""


class TooSlow(ShadowpriceError):
    """The body did not arrive in time."""

    status = 408


class Unauthorised(ShadowpriceError):
    """The bearer token is missing or wrong."""

    status = 401


class Gone(Exception):
    """The caller has hung up."""


class Front:
    """POSTs to the paths of ``handlers`` are answered here, all else by ``application``.

    token    what callers must present as ``Authorization: Bearer …``; None: nothing. Probes, metadata and
             metrics are the application's and stay open: the kubelet and Prometheus have no token, and there
             is nothing in them of a customer.
    seconds  for the body to arrive, and again for the answer
    """

    def __init__(
        self,
        application: Application,
        handlers: Mapping[str, Handler],
        token: str | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._application = application
        self._handlers = handlers
        self._token = token
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        handler = self._handlers.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if handler is None:
            await self._application(scope, receive, send)
            return
        try:
            if self._token is not None:
                shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
                check_token(shown.decode("latin-1"), self._token)
            status, content = 200, await self._answer(handler, receive)
        except Gone:
            return
        except ShadowpriceError as error:
            status, content = error.status, orjson.dumps(refusal(error))
        except Exception:
            logger.exception("POST %s failed", scope["path"])
            status, content = 500, b'{"error":"internal error; see the log of the service"}'
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        if status in (401, 408, 413):  # the rest of the body is not read
            headers.append((b"connection", b"close"))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, handler: Handler, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                body = await _read(receive)
        except TimeoutError:
            raise TooSlow(f"body: did not arrive within {self._seconds:.0f} s") from None
        try:
            async with asyncio.timeout(self._seconds):
                return await handler(body)
        except TimeoutError:
            raise Unavailable(f"no answer within {self._seconds:.0f} s; send the request again") from None


def in_framework(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The handler as an endpoint of the framework, which describes it and answers other methods."""

    @wraps(handler)
    async def endpoint(request: Request) -> Response:
        return Response(await handler(await read_body(request)), media_type="application/json")

    return endpoint


def check_token(shown: str, token: str | None) -> None:
    """Make sure that an ``Authorization`` header shows the token, where one is asked for, or :class:`Unauthorised`."""
    if not permits({"authorization": shown}, token):
        raise Unauthorised("authorization: this service needs its bearer token")


async def _read(receive: Receive) -> bytes:
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
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunk if len(chunks) == 1 else b"".join(chunks)
