"""Callers that mean harm: bodies of a million wrong items, reused request ids, connections that never finish."""

import asyncio
import http.client
import json
import os
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

from benchmarks.faults.framing import CALLERS, WITHOUT_TOKEN, Attack, hold
from benchmarks.faults.threads import Threads
from serving.http.tokens import ledger_tokens, read_secret
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals
from shadowprice.errors import ShadowpriceError

BODY_ITEMS = 1_300_000
TOKEN_FILE = "SHADOWPRICE_TOKEN_FILE"
"""Variable of the file with the token that callers of the predictor show."""
HALF_OPEN = b"POST /v1/outcomes HTTP/1.1\r\nHost: localhost\r\n"
"""Headers that never end."""
PAUSE_SECONDS = 0.02
"""Pause of an attacker whose calls are served; without one a caller with a token takes an equal share."""
PATHS = ("/v1/authorizations", "/v1/outcomes", "/v1/releases")


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
        with closing(Authorizer(url, campaign, ledger_tokens(os.environ))) as authorizer:
            account = 0
            while not stop.is_set():
                account += 1
                with suppress(ShadowpriceError):
                    await authorizer.authorize(
                        replace(REUSED, account_id=[f"hostile-{account}"]), model_version="m", price_version=1
                    )

    asyncio.run(reuse())


def whole_numbers(url: str, campaign: str, stop: Event) -> None:
    """Ask a predictor with the whole numbers that honest callers send as 1.0, 2.0, ….

    Numbers of context are doubles, so the answers of others must not change.
    """
    serial = 0
    while not stop.wait(PAUSE_SECONDS):
        serial += 1
        instance = {"request_id": f"whole-{time.time_ns()}", "account_id": "c1", "side": "customer"}
        context = {"x_basket": serial % 10, "c_channel": "app"}
        body = json.dumps({"instances": [{**instance, "context": context}]}).encode()
        _post(url, f"/v1/models/{campaign}:predict", body)


def conflicting_requests(url: str, campaign: str, stop: Event) -> None:
    """Ask a predictor for one request id, for another account in every call."""
    account = 0
    while not stop.wait(PAUSE_SECONDS):
        account += 1
        instance = {"request_id": "hostile", "account_id": f"hostile-{account}", "side": "customer"}
        _post(url, f"/v1/models/{campaign}:predict", json.dumps({"instances": [instance]}).encode())


ATTACKS: dict[str, Attack] = {
    "hostile bodies": hostile_bodies,
    "conflicting ids": conflicting_ids,
    "half-open connections": partial(hold, HALF_OPEN, 500 // CALLERS),
}
"""Attacks on a ledger, by callers with a token where it asks for one."""
OF_PREDICTOR: dict[str, Attack] = {"conflicting requests": conflicting_requests, "whole numbers": whole_numbers}
"""Attacks on a predictor, by callers with a token where it asks for one."""
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


class Attackers(Threads):
    """``CALLERS`` threads of one attack, until they are stopped."""

    def __init__(self, attack: Attack, url: str, campaign: str) -> None:
        super().__init__()
        self.start([partial(attack, url, campaign, self._stop)] * CALLERS)


def _post(url: str, path: str, body: bytes) -> None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        headers = {"Content-Type": "application/json"}
        if token := read_secret(Path(os.environ[TOKEN_FILE]) if TOKEN_FILE in os.environ else None):
            headers["Authorization"] = f"Bearer {token}"
        connection.request("POST", path, body, headers)
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def main() -> None:
    """Attack as the arguments say: name, address, campaign and seconds; at the lowest priority."""
    name, url, campaign, seconds = sys.argv[1:]
    os.nice(19)
    # Who started this may stop it until it is wanted.
    print("ready", flush=True)
    attackers = Attackers((ATTACKS | WITHOUT_TOKEN | OF_PREDICTOR)[name], url, campaign)
    time.sleep(float(seconds))
    attackers.stop()


if __name__ == "__main__":
    main()
