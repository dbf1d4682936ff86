"""HTTP server whose connections are bounded, and which accepts no more of them than it has time for."""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import uvicorn

from serving.http.limits import ACCEPT_SECONDS, RECEIVE_BYTES
from serving.http.listening import BoundedHttp, bounds
from serving.http.pacing import Pace
from shadowprice.errors import Unavailable

BACKLOG = 2048
"""Connections that wait in the kernel."""
AT_ONCE = 16
"""Connections that are accepted before other events are handled."""
KEPT_SECONDS, GRACE_SECONDS = 65, 5
"""How long an idle connection is kept, and how long calls may take to end after a signal to stop."""
RETRY_SECONDS = 1.0
"""Pause after a connection could not be accepted, such as for want of files."""


class Listener:
    """Listening socket that takes its turns of :class:`Pace`; connections wait in the kernel meanwhile."""

    def __init__(self, listening: socket.socket, protocol: Callable[[], BoundedHttp], pace: Pace) -> None:
        self.sockets = [listening]
        self._listening = listening
        self._protocol = protocol
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._making: set[asyncio.Task[Any]] = set()
        self._open()

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove_reader(self._listening)
        self._listening.close()

    async def wait_closed(self) -> None:
        """Return: the socket is closed at once."""

    def _open(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._ready)

    def _ready(self) -> None:
        for _ in range(AT_ONCE):
            if not self._pace.free():
                self._loop.remove_reader(self._listening)
                self._pace.wait("", self._turn)
                return
            if not self._accept():
                return

    def _turn(self) -> None:
        # One alone: no more strangers come in than have their turn.
        if self._listening.fileno() >= 0:
            self._accept()
            self._open()

    def _accept(self) -> bool:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return False
        except OSError:
            self._loop.remove_reader(self._listening)
            self._loop.call_later(RETRY_SECONDS, self._open)
            return False
        connection.setblocking(False)
        self._pace.charge(ACCEPT_SECONDS)
        making: Coroutine[Any, Any, Any] = self._loop.connect_accepted_socket(self._protocol, connection)
        task = self._loop.create_task(making)
        self._making.add(task)
        task.add_done_callback(partial(self._made, connection))
        return True

    def _made(self, connection: socket.socket, task: asyncio.Task[Any]) -> None:
        self._making.discard(task)
        if task.cancelled() or task.exception() is not None:
            # A peer that is gone already is no error of ours.
            connection.close()


class BoundedServer(uvicorn.Server):
    """uvicorn's server behind a :class:`Listener`.

    beat  monotonic time at which the event loop was seen running; 0 before

    Raises:
        Unavailable: the port is taken.
    """

    def __init__(self, app: Any, host: str, port: int, **options: Any) -> None:
        own: dict[str, Any] = {
            "timeout_keep_alive": KEPT_SECONDS,
            "timeout_graceful_shutdown": GRACE_SECONDS,
            **options,
        }
        super().__init__(
            uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, **bounds(), **own)
        )
        self.beat = 0.0
        self._listening = _listening_on(host, port)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's
        """Start the application, then accept connections."""
        config = self.config
        await super().startup(sockets=[])
        state, protocol = self.lifespan.state, config.http_protocol_class

        def connection() -> BoundedHttp:
            made: Any = protocol
            return made(config=config, server_state=self.server_state, app_state=state)  # type: ignore[no-any-return]

        servers: list[Any] = [Listener(self._listening, connection, protocol.door.pace)]  # type: ignore[attr-defined]
        self.servers = servers

    async def on_tick(self, counter: int) -> bool:
        """Note that the event loop runs."""
        self.beat = time.monotonic()
        return await super().on_tick(counter)


def _listening_on(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Its connections inherit it.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    made.setblocking(False)
    try:
        made.bind((host, port))
        # Here, since a bound port is not taken before something listens on it.
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Unavailable(f"port {port} of {host} cannot be used: {error.strerror}; choose another") from None
    return made
