"""HTTP connections with a bound on their number, their headers and their time."""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.http.limits import EXCHANGE_SECONDS, HEAD_SECONDS, MAX_CONNECTIONS, MAX_HEAD_BYTES


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the connections of one server.

    connections       most connections at a time
    head_seconds      for a request line with its headers to arrive
    exchange_seconds  from the headers to the last byte of the answer
    """

    connections: int = MAX_CONNECTIONS
    head_seconds: float = HEAD_SECONDS
    exchange_seconds: float = EXCHANGE_SECONDS


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol with :class:`Limits`.

    A connection beyond the limit closes the one that has been idle longest. Where none is idle, the new
    connection is refused with 503.
    """

    limits: ClassVar[Limits]
    idle: ClassVar[OrderedDict[BoundedHttp, None]]
    """Connections without a request in progress, the longest idle first."""

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if there is a place for the connection."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            if not self.idle:
                self._refuse(503, "too many connections")
                return
            next(iter(self.idle))._drop()
        self.idle[self] = None
        self._allow(self.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.idle.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self in self.idle and self._deadline is None:
            self._allow(self.limits.head_seconds)
        super().data_received(data)
        if self in self.idle:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "request line and headers are too long")

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self.idle.pop(self, None)
        self._head_bytes = 0
        self._allow(self.limits.exchange_seconds)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """End a request; the next one may already have been read."""
        super().on_response_complete()
        # A transport that is closing may wait for a peer who does not read: the timer stays.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._stop_timer()
            self.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that asks for nothing more."""
        self._drop()

    def _allow(self, seconds: float) -> None:
        self._stop_timer()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self in self.idle and self._head_bytes:
            self._refuse(408, "the request line and headers did not arrive in time")
        else:
            self._drop()

    def _refuse(self, status: int, reason: str) -> None:
        body = b'{"error":"%b"}' % reason.encode()
        head = b"HTTP/1.1 %d \r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n" % status
        if not self.transport.is_closing():
            self.transport.write(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
            self.transport.close()
        self._leave()

    def _drop(self) -> None:
        self.transport.abort()
        self._leave()

    def _leave(self) -> None:
        self.idle.pop(self, None)
        self.connections.discard(self)
        self._stop_timer()


def bounded_http(limits: Limits) -> type[BoundedHttp]:
    """Return the protocol of one server."""
    return type("BoundedHttp", (BoundedHttp,), {"limits": limits, "idle": OrderedDict()})


def bounds() -> dict[str, Any]:
    """Return the options of ``uvicorn.Config`` that bound its connections; raises this process's limit of files.

    A connection is a file: where few are allowed, half of them are left for the stores.
    """
    limits = Limits(connections=min(MAX_CONNECTIONS, raise_file_limit() // 2))
    return {"http": bounded_http(limits), "ws": "none"}


def raise_file_limit() -> int:
    """Raise the limit of open files as far as this process may, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return MAX_CONNECTIONS * 2 if hard == resource.RLIM_INFINITY else hard
