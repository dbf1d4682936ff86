"""HTTP connections with a budget of bytes and of time, and a bound on their number."""

import asyncio
import resource
from time import perf_counter
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from serving.http.door import ConnectionLimits, Door, peer_of
from serving.http.handler import CONNECTION
from serving.http.limits import (
    ACCEPT_SECONDS,
    BYTE_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    MAX_PIPELINED,
    MAX_STRANGERS,
)
from serving.http.pacing import Timed

SLICE = 4096
"""Bytes that are parsed before the limits are checked again."""


class Crowded(Exception):
    """More requests on a connection than may wait."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol behind a :class:`Door`.

    Bytes that are no body are bounded, whatever the framing, and so is the time of each exchange. A connection without
    an admitted request waits for its turn while admitted callers are served.
    """

    door: ClassVar[Door]

    peer = ""
    admitted = False
    _deadline: asyncio.TimerHandle | None = None
    _waits = True
    """Whether the connection waits for the rest of a request."""
    _framing = 0
    """Bytes of the current request that are no body."""
    _in_head = False
    _crowded = False
    _spent = ACCEPT_SECONDS
    _held = b""
    """Bytes that arrived before the connection's turn."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if there is a place for the connection."""
        super().connection_made(transport)
        self.peer = peer_of(self.client)
        if len(self.connections) > self.door.limits.connections and not self.door.make_place():
            self._refuse(503, "too many connections")
            return
        self.door.enter(self)
        self._allow(self.door.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, or keep it until it is the connection's turn."""
        pace = self.door.pace
        self.spend(len(data) * BYTE_SECONDS)
        if self.admitted:
            pace.serve()
            self._parse(data)
        elif self._crowded or self._held or not pace.free():
            if not self._held and not self._crowded:
                # It has said something, so it makes no place for another until that was read.
                self.door.leave(self)
                pace.wait(self.peer, self._take_turn)
            self.flow.pause_reading()
            self._held = b"" if self._crowded else self._held + data
        else:
            self._timed(data)

    def _take_turn(self) -> None:
        if self.parser is not None and not self.transport.is_closing():
            data, self._held = self._held, b""
            self.flow.resume_reading()
            self._timed(data)
            if self._waits and not self.admitted and not self.transport.is_closing():
                self.door.enter(self)

    def _timed(self, data: bytes) -> None:
        started = perf_counter()
        self._parse(data)
        self.spend(perf_counter() - started)

    def spend(self, seconds: float) -> None:
        """Count processor time of a stranger."""
        if not self.admitted:
            self._spent += seconds
            self.door.pace.charge(seconds)

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._waits and self._deadline is None:
            self._allow(self.door.limits.head_seconds)
        view = memoryview(data)
        for start in range(0, len(data), SLICE):
            part = view[start : start + SLICE]
            self._framing += len(part)
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade:
                self._refuse(400, "upgrades are not offered")
            except httptools.HttpParserError:
                if self._crowded:
                    # The requests that wait are answered, and the connection ends with the last of them.
                    self.pipeline[0][0].keep_alive = False
                    self.flow.pause_reading()
                    return
                self._refuse(400, "this is no HTTP request")
            if self._framing > MAX_HEAD_BYTES:
                self._refuse(431, "request line, headers, chunk sizes and trailers are too long")
            if self.transport.is_closing():
                return

    def on_message_begin(self) -> None:
        """Begin a request line."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self._crowded = True
            raise Crowded
        super().on_message_begin()
        self._in_head = True
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer comes after the request was admitted by its headers, and is dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._in_head = False
        if self.admitted:
            self.door.leave(self)
        self._allow(self.door.limits.exchange_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Hold a whole request, whose answer does not depend on the peer."""
        self._framing = 0
        self._waits = False
        self.door.leave(self)
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self.admitted:
            super()._start_asgi_task(cycle, app)
            return

        async def timed(*call: Any) -> None:
            await Timed(app(*call), self.spend)

        super()._start_asgi_task(cycle, timed)

    def admit(self) -> None:
        """Note that a request was admitted: its caller is no stranger."""
        pace = self.door.pace
        pace.serve()
        if not self.admitted:
            self.door.leave(self)
            self.admitted = True
            pace.charge(-self._spent)

    def on_response_complete(self) -> None:
        """End a request; the next one may already have been read."""
        super().on_response_complete()
        # A transport that is closing may wait for a peer who does not read: the timer stays.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._stop_timer()
            self._spent = 0.0
            self._waits = True
            self.door.enter(self)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that asks for nothing more."""
        self.drop()

    def drop(self) -> None:
        """Close the connection without an answer."""
        self.transport.abort()
        self._leave()

    def _allow(self, seconds: float) -> None:
        self._stop_timer()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self._in_head:
            self._refuse(408, "the request line and headers did not arrive in time")
        else:
            self.drop()

    def _refuse(self, status: int, reason: str) -> None:
        body = b'{"error":"%b"}' % reason.encode()
        head = b"HTTP/1.1 %d \r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n" % status
        if not self.transport.is_closing():
            self.transport.write(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
            self.transport.close()
        self._leave()

    def _leave(self) -> None:
        self.door.leave(self)
        self.connections.discard(self)
        self._stop_timer()


def bounded_http(limits: ConnectionLimits) -> type[BoundedHttp]:
    """Return the protocol of one server."""
    return type("BoundedHttp", (BoundedHttp,), {"door": Door(limits)})


def bounds() -> dict[str, Any]:
    """Return the options of ``uvicorn.Config`` that bound its connections; raises this process's limit of files.

    A connection is a file: where few are allowed, half of them are left for the stores.
    """
    connections = min(MAX_CONNECTIONS, raise_file_limit() // 2)
    limits = ConnectionLimits(connections=connections, strangers=max(1, min(MAX_STRANGERS, connections // 4)))
    return {"http": bounded_http(limits), "ws": "none"}


def raise_file_limit() -> int:
    """Raise the limit of open files as far as this process may, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return MAX_CONNECTIONS * 2 if hard == resource.RLIM_INFINITY else hard
