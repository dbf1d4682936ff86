"""Probes and metrics on a port and a thread of their own, which no flood of the service's port reaches."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from serving.http.handler import Receive, Scope, Send, send_answer
from serving.http.limits import STUCK_SECONDS
from serving.http.server import BoundedServer
from shadowprice.errors import ShadowpriceError, Unavailable

Ready = Callable[[], Mapping[str, Any]]
"""Return what readiness says, or raise ``Unavailable`` with the reason."""


class Probes:
    """Application of ``/healthz``, ``/readyz`` and ``/metrics``.

    beat      returns the monotonic time at which the service's event loop was seen running; 0 before
    ready     of the service
    registry  its metrics
    """

    def __init__(self, beat: Callable[[], float], ready: Ready, registry: CollectorRegistry) -> None:
        self._beat = beat
        self._ready = ready
        self._registry = registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI asks for it
        """Answer one request."""
        kind = b"application/json"
        try:
            match scope["path"]:
                case "/healthz":
                    status, content = 200, orjson.dumps(self._alive())
                case "/readyz":
                    status, content = 200, orjson.dumps(await asyncio.to_thread(self._ready))
                case "/metrics":
                    shown = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
                    encoder, text_kind = choose_encoder(shown)
                    status, content = 200, await asyncio.to_thread(encoder, self._registry)
                    kind = text_kind.encode()
                case _:
                    status, content = 404, b'{"error":"this port has /healthz, /readyz and /metrics"}'
        except ShadowpriceError as error:
            status, content = error.status, orjson.dumps({"error": str(error)})
        await send_answer(send, status, content, kind=kind)

    def _alive(self) -> dict[str, str]:
        beat = self._beat()
        if beat and time.monotonic() - beat > STUCK_SECONDS:
            raise Unavailable(f"the service's event loop has stood still for more than {STUCK_SECONDS:.0f} s")
        return {"status": "alive"}


@contextmanager
def probing(host: str, port: int, probes: Probes) -> Iterator[None]:
    """Answer probes on a thread until the context ends; 0 for the port: not at all.

    Raises:
        Unavailable: the port is taken.
    """
    if not port:
        yield
        return
    server = BoundedServer(probes, host, port, lifespan="off")
    thread = Thread(target=server.run, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
