"""Clients of the two services, over kept-alive connections."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from serving.ledger.events import TYPE
from serving.ledger.guard import ledger_token
from serving.protocol import INPUTS, OUTPUTS
from shadowprice.errors import Conflict, InvalidRequest, NotFound, ShadowpriceError, Unavailable

TIMEOUT_SECONDS = 30.0
DTYPES = {"INT64": np.int64, "INT32": np.int32, "FP64": np.float64, "BYTES": np.str_}


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What a batch of n requests was given; arrays (n,) in the order of the requests.

    incentive in minor units; level an index into the side's levels, -1 for nothing; reason str;
    seconds the call took, as the caller saw it.
    """

    incentive: NDArray[np.int64]
    level: NDArray[np.int32]
    response: NDArray[np.float64]
    expected_cost: NDArray[np.float64]
    propensity: NDArray[np.float64]
    reason: NDArray[np.str_]
    price_version: int
    model_version: str
    price_age_seconds: float
    degraded: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one request.

    redeemed     for customers; response for merchants (units of response)
    cost         minor units paid
    observed_at  UTC
    """

    request_id: str
    cost: int
    observed_at: datetime
    redeemed: bool | None = None
    response: float | None = None


class _Client:
    """A kept-alive connection whose refusals are errors of :mod:`shadowprice.errors`."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, headers=headers)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} does not answer: {error!r}") from error
        try:
            content = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{response.url} answered {response.status_code} with what is not JSON") from error
        if response.is_success:
            return content
        message = content.get("error", response.text) if isinstance(content, dict) else response.text
        raise _error(response.status_code, str(message), content)


class DecisionClient(_Client):
    """Asks the predictor of one campaign, by Open Inference V2, showing ``token`` where it wants one."""

    def __init__(self, url: str, campaign: str, token: str | None = None) -> None:
        super().__init__(url, token)
        self._path = f"/v2/models/{campaign}/infer"

    def decide(self, request_ids: Sequence[str], account_ids: Sequence[str], sides: Sequence[str]) -> Decisions:
        """Decide n requests in one call.

        Raises:
            InvalidRequest: the predictor refuses a field; Conflict: a request id is used twice for
                different accounts; NotFound: another campaign; Unavailable: it cannot answer now.
        """
        tensors = zip(INPUTS, (request_ids, account_ids, sides), strict=True)
        body = {
            "inputs": [
                {"name": name, "datatype": "BYTES", "shape": [len(values)], "data": [str(value) for value in values]}
                for name, values in tensors
            ]
        }
        started = time.perf_counter()
        content = self._send("POST", self._path, content=orjson.dumps(body))
        seconds = time.perf_counter() - started
        outputs = {tensor["name"]: tensor["data"] for tensor in content["outputs"]}
        arrays: dict[str, Any] = {
            name: np.array(outputs[name], dtype=DTYPES[datatype]) for name, datatype in OUTPUTS.items()
        }
        return Decisions(**arrays, **content["parameters"], seconds=seconds)


class LedgerClient(_Client):
    """Reports outcomes to the ledger and reads its totals; shows the token that the environment names."""

    def __init__(self, url: str) -> None:
        super().__init__(url, ledger_token(os.environ))

    def settle(self, outcomes: Sequence[Outcome], source: str) -> tuple[int, int]:
        """Report outcomes in one call, all or none; the event id is the request id, so a repeat counts nothing.

        Returns how many were new and how many had been taken before.

        Raises:
            NotFound: a request that was never decided; Conflict: it is settled otherwise;
            InvalidRequest: an outcome that cannot be; Unavailable: the ledger cannot write now.
        """
        events = [
            {
                "specversion": "1.0",
                "type": TYPE,
                "source": source,
                "id": outcome.request_id,
                "data": {
                    name: value
                    for name in ("request_id", "redeemed", "response", "cost", "observed_at")
                    if (value := getattr(outcome, name)) is not None
                },
            }
            for outcome in outcomes
        ]
        headers = {"content-type": "application/cloudevents-batch+json"}
        content = self._send("POST", "/v1/outcomes", content=orjson.dumps(events), headers=headers)
        return content["accepted"], content["repeated"]

    def release(self, campaign: str, request_ids: Sequence[str]) -> tuple[int, int]:
        """Give back promises that were not made use of, all or none; what is not open any more is repeated.

        Raises:
            NotFound: a request that was never decided; Conflict: one is settled; Unavailable: see above.
        """
        body = {"campaign": campaign, "request_ids": list(request_ids)}
        content = self._send("POST", "/v1/releases", content=orjson.dumps(body))
        return content["accepted"], content["repeated"]

    def totals(self) -> dict[str, Any]:
        """The campaign's totals: spent, authorised, outstanding, money_left, requests and responses by side."""
        content: dict[str, Any] = self._send("GET", "/v1/totals")
        return content

    def traffic(self, since: datetime | None = None, limit: int = 1000) -> dict[str, Any]:
        """Requests by hour and side, and the newest ``limit`` of them."""
        parameters: dict[str, Any] = {"limit": limit} | ({} if since is None else {"since": since.isoformat()})
        content: dict[str, Any] = self._send("GET", "/v1/traffic", params=parameters)
        return content


def _error(status: int, message: str, content: Any) -> ShadowpriceError:
    if status == NotFound.status:
        return NotFound(message)
    if status == Conflict.status:
        return Conflict(message)
    if 400 <= status < 500:
        refused = InvalidRequest(message)
        refused.field = content.get("field") if isinstance(content, dict) else None
        return refused
    return Unavailable(f"answered {status}: {message}")
