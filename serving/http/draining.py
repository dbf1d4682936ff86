"""A server that leaves its callers time to go elsewhere before it stops."""

import signal
from threading import Timer
from types import FrameType
from typing import Any

from serving.http.server import BoundedServer

DRAINING = "the service is about to stop; another replica answers"
"""Reason why a service that drains is not ready."""


class DrainingServer(BoundedServer):
    """Server that after SIGTERM still answers for ``seconds``: a load balancer sees meanwhile that it ends.

    Then it takes no connection, answers the calls in progress and closes idle connections. A second signal ends the
    wait.
    """

    def __init__(self, app: Any, host: str, port: int, seconds: float) -> None:
        super().__init__(app, host, port)
        self.draining = False
        self._seconds = seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain, or stop."""
        if sig == signal.SIGTERM and self._seconds > 0 and not self.draining:
            self.draining = True
            timer = Timer(self._seconds, super().handle_exit, (sig, frame))
            timer.daemon = True
            timer.start()
        else:
            super().handle_exit(sig, frame)
