"""Connections that wait for a request, and the choice of the one that is closed for another."""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Protocol

from serving.http.limits import EXCHANGE_SECONDS, HEAD_SECONDS, MAX_CONNECTIONS, MAX_STRANGERS
from serving.http.pacing import Pace


class Waiting(Protocol):
    """Connection that waits for a request.

    peer      address that its peer's connections are counted by
    admitted  whether a request of it was admitted
    """

    peer: str
    admitted: bool

    def drop(self) -> None:
        """Close the connection without an answer."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits of the connections of one server.

    connections       most connections at a time
    strangers         most of one peer that wait for a request and have had none admitted
    head_seconds      for a request line with its headers to arrive
    exchange_seconds  from the headers to the last byte of the answer
    """

    connections: int = MAX_CONNECTIONS
    strangers: int = MAX_STRANGERS
    head_seconds: float = HEAD_SECONDS
    exchange_seconds: float = EXCHANGE_SECONDS


class Door:
    """Connections of one server that wait for a request; each of them may have to make place for another.

    strangers  those without an admitted request, by peer, the oldest first
    idle       those with one, the longest idle first
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.pace = Pace()
        self.strangers: dict[str, OrderedDict[Waiting, None]] = {}
        self.idle: OrderedDict[Waiting, None] = OrderedDict()

    def enter(self, connection: Waiting) -> None:
        """Add a connection that waits."""
        if connection.admitted:
            self.idle[connection] = None
            return
        own = self.strangers.setdefault(connection.peer, OrderedDict())
        own[connection] = None
        if len(own) > self.limits.strangers:
            next(iter(own)).drop()

    def leave(self, connection: Waiting) -> None:
        """Remove a connection, which waits no longer."""
        self.idle.pop(connection, None)
        own = self.strangers.get(connection.peer)
        if own is not None:
            own.pop(connection, None)
            if not own:
                del self.strangers[connection.peer]

    def make_place(self) -> bool:
        """Close a waiting connection: a stranger of the peer with the most of them, else the one idle longest."""
        waiting = max(self.strangers.values(), key=len, default=self.idle)
        if waiting:
            next(iter(waiting)).drop()
        return bool(waiting)


def peer_of(client: tuple[str, int] | None) -> str:
    """Return the address that a peer's connections are counted by: one host has a whole /64 of IPv6."""
    host = client[0] if client else ""
    return IPv6Address(host.partition("%")[0]).exploded[:19] if ":" in host else host
