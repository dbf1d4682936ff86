"""Callers that mean harm: bodies of a million wrong items, reused request ids, connections that never finish."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from threading import Event, Thread
from urllib.parse import urlsplit

from serving.predictor.ledger.client import Authoriser, Proposals
from shadowprice.errors import ShadowpriceError

CALLERS = 4
BODY_ITEMS = 1_300_000
HALF_OPEN = 500
PATHS = ("/v1/authorizations", "/v1/outcomes", "/v1/releases")

Attack = Callable[[str, str, Event], None]
"""Run the attack on a campaign of the ledger at an address until the event is set."""


def hostile_bodies(url: str, campaign: str, stop: Event) -> None:
    """Send bodies of almost 4 MB, each with 1.3 million wrong items."""
    wrong = b"0," * BODY_ITEMS + b"0"
    bodies = [b'{"campaign":"%b","request_ids":[%b]}' % (campaign.encode(), wrong), b"[%b]" % wrong]
    while not stop.is_set():
        for path, body in zip(PATHS, [*bodies, bodies[0]], strict=True):
            _post(url, path, body)


def conflicting_ids(url: str, campaign: str, stop: Event) -> None:
    """Reuse one request id for another account in every call."""

    async def reuse() -> None:
        with closing(Authoriser(url, campaign)) as authoriser:
            account = 0
            while not stop.is_set():
                account += 1
                with suppress(ShadowpriceError):
                    await authoriser.authorise(
                        replace(REUSED, account_id=[f"hostile-{account}"]), model_version="m", price_version=1
                    )

    asyncio.run(reuse())


def conflicting_requests(url: str, campaign: str, stop: Event) -> None:
    """Ask a predictor for one request id, for another account in every call."""
    account = 0
    while not stop.is_set():
        account += 1
        instance = {"request_id": "hostile", "account_id": f"hostile-{account}", "side": "customer"}
        _post(url, f"/v1/models/{campaign}:predict", json.dumps({"instances": [instance]}).encode())


def half_open_connections(url: str, campaign: str, stop: Event) -> None:  # noqa: ARG001 - as every attack
    """Open connections whose headers never end, and open those again that the ledger closes."""
    place = urlsplit(url)
    held: list[socket.socket] = []
    while not stop.wait(0.05):
        while len(held) < HALF_OPEN // CALLERS:
            try:
                held.append(socket.create_connection((place.hostname or "", place.port or 80), timeout=1))
                held[-1].sendall(b"POST /v1/outcomes HTTP/1.1\r\nHost: ledger\r\n")
            except OSError:
                break
        held = [each for each in held if not _closed(each)]
    for each in held:
        each.close()


ATTACKS: dict[str, Attack] = {
    "hostile bodies": hostile_bodies,
    "conflicting ids": conflicting_ids,
    "half-open connections": half_open_connections,
}
REUSED = Proposals(
    request_id=["hostile"],
    account_id=["hostile"],
    side=["customer"],
    level=[0],
    incentive=[0],
    response=[0.5],
    expected_cost=[0.0],
    propensity=[0.5],
    reason=["optimal"],
    response_unpaid=[0.1],
    propensities=[[0.5, 0.5, 0.0]],
    features_at=[None],
)


class Attackers:
    """``CALLERS`` threads of one attack, until they are stopped."""

    def __init__(self, attack: Attack, url: str, campaign: str) -> None:
        self._stop = Event()
        self._threads: Sequence[Thread] = [
            Thread(target=attack, args=(url, campaign, self._stop), daemon=True) for _ in range(CALLERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each finish what it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _post(url: str, path: str, body: bytes) -> None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def _closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)


def main() -> None:
    """Attack as the arguments say: name, address, campaign and seconds; at the lowest priority."""
    name, url, campaign, seconds = sys.argv[1:]
    os.nice(19)
    attackers = Attackers((ATTACKS | {"conflicting requests": conflicting_requests})[name], url, campaign)
    time.sleep(float(seconds))
    attackers.stop()


if __name__ == "__main__":
    main()
