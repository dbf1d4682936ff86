"""Clients of the two services, over kept-alive connections."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from serving.http.tokens import Role, ledger_tokens
from serving.ledger.api.corrections import CORRECTION_TYPE
from serving.ledger.api.events import TYPE
from serving.ledger.moves import RESTORING, Move, MoveRow, State, Step
from serving.protocol import INPUTS, OUTPUTS, type_of
from shadowprice.campaign.session import SESSION
from shadowprice.errors import Conflict, InvalidRequest, NotFound, ShadowpriceError, Unavailable
from shadowprice.pacing.decision_log.records import CorrectionKind

Session = Sequence[Mapping[str, Any]]
"""Behaviors of one session."""
TIMEOUT_SECONDS = 30.0
LATER = (408, 429)
"""Statuses after which the same request may be sent again."""
DTYPES = {"INT64": np.int64, "INT32": np.int32, "FP64": np.float64, "BYTES": np.str_, "BOOL": np.bool_}


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Answers to a batch of n requests; arrays (n,) in the order of the requests.

    incentive in minor units; level an index into the side's levels, -1 for nothing; reason and arm str;
    offer_id the level's offer, empty for nothing; limited_by the budget or cap that the incentive did not fit;
    repeat whether the request was answered before; price_version and model_version those it was decided with;
    active_price_version and active_model_version those in use now; seconds the call took, as the caller saw it.
    """

    incentive: NDArray[np.int64]
    level: NDArray[np.int32]
    offer_id: NDArray[np.str_]
    response: NDArray[np.float64]
    expected_cost: NDArray[np.float64]
    propensity: NDArray[np.float64]
    reason: NDArray[np.str_]
    repeat: NDArray[np.bool_]
    price_version: NDArray[np.int64]
    model_version: NDArray[np.str_]
    arm: NDArray[np.str_]
    limited_by: NDArray[np.str_]
    active_price_version: int
    active_model_version: str
    price_age_seconds: float
    degraded: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one request.

    redeemed     for customers; response for merchants (units of response)
    cost         minor units paid
    observed_at  UTC
    amount       minor units of what was bought, before the discount; None: not known
    """

    request_id: str
    cost: int
    observed_at: datetime
    redeemed: bool | None = None
    response: float | None = None
    amount: int | None = None


@dataclass(frozen=True, kw_only=True)
class Correction(Outcome):
    """Values of an outcome after a correction.

    event_id  id of the correction; a repeat counts nothing
    kind      ``reversal``, ``refund`` or ``clawback``
    override  record it also without an earlier outcome and beyond the budget; for administrators
    """

    event_id: str
    kind: CorrectionKind
    override: bool = False


class _Client:
    """Kept-alive connection that raises refusals as errors of :mod:`shadowprice.errors`."""

    def __init__(self, url: str, parameters: Mapping[str, str] | None = None) -> None:
        headers = {"content-type": "application/json"}
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, headers=headers)
        self._parameters = dict(parameters or {})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, method: str, path: str, token: str | None, **options: Any) -> Any:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        try:
            parameters = self._parameters | options.pop("params", {})
            headers |= options.pop("headers", {})
            response = self._http.request(method, path, headers=headers, params=parameters, **options)
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} does not answer: {error!r}") from error
        try:
            content = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{response.url} answered {response.status_code} with what is not JSON") from error
        if response.is_success:
            return content
        message = content.get("error", response.text) if isinstance(content, dict) else response.text
        raise _error(response.status_code, str(message), content, response.headers.get("retry-after", ""))


class DecisionClient(_Client):
    """Client of the predictor of one campaign, by Open Inference V2; sends ``token`` where it is given."""

    def __init__(self, url: str, campaign: str, token: str | None = None) -> None:
        super().__init__(url)
        self._token = token
        self._path = f"/v2/models/{campaign}/infer"
        self._explain = f"/v1/models/{campaign}:explain"

    def decide(
        self,
        request_ids: Sequence[str],
        account_ids: Sequence[str],
        sides: Sequence[str],
        partner_ids: Sequence[str] | None = None,
        context: Mapping[str, Sequence[float | str | None]] | None = None,
        sessions: Sequence[Session | None] | None = None,
    ) -> Decisions:
        """Decide n requests in one call.

        Args:
            request_ids: (n,), an id of each request; the same id gets the same answer.
            account_ids: (n,).
            sides: (n,), ``customer`` or ``merchant``.
            partner_ids: (n,), "" where a request has no partner.
            context: name → (n,), numbers of x_…, texts of c_…; None where a request has none.
            sessions: (n,), carts and orders before each voucher, objects with ``item_id``, ``action`` (cart or order),
                ``ts`` and perhaps ``category``, ``brand`` and ``price_level``; None where a request has no session.

        Raises:
            InvalidContext: the active model does not read a value of the context, or a limit counts by partner and
                a request has none.
            InvalidRequest: the predictor refuses a field; Conflict: a request id is used twice for
                different accounts; NotFound: another campaign; Unavailable: it cannot answer now.
        """
        tensors: dict[str, Sequence[Any]] = dict(zip(INPUTS, (request_ids, account_ids, sides), strict=True))
        if partner_ids is not None:
            tensors["partner_id"] = partner_ids
        texts: dict[str, Sequence[Any]] = {name: [str(value) for value in values] for name, values in tensors.items()}
        if sessions is not None:
            texts[SESSION] = ["" if session is None else orjson.dumps(session).decode() for session in sessions]
        body = {
            "inputs": [
                {"name": name, "datatype": type_of(name, name), "shape": [len(values)], "data": list(values)}
                for name, values in (texts | dict(context or {})).items()
            ]
        }
        started = time.perf_counter()
        content = self._send("POST", self._path, self._token, content=orjson.dumps(body))
        seconds = time.perf_counter() - started
        outputs = {tensor["name"]: tensor["data"] for tensor in content["outputs"]}
        arrays: dict[str, Any] = {
            name: np.array(outputs[name], dtype=DTYPES[datatype]) for name, datatype in OUTPUTS.items()
        }
        parameters = content["parameters"]
        return Decisions(
            **arrays,
            active_price_version=parameters["price_version"],
            active_model_version=parameters["model_version"],
            price_age_seconds=parameters["price_age_seconds"],
            degraded=parameters["degraded"],
            seconds=seconds,
        )

    def explain(
        self,
        request_ids: Sequence[str],
        account_ids: Sequence[str],
        sides: Sequence[str],
        partner_ids: Sequence[str] | None = None,
        context: Mapping[str, Sequence[float | str | None]] | None = None,
        sessions: Sequence[Session | None] | None = None,
    ) -> dict[str, Any]:
        """Explain what n requests would be given now: ``explanations``, prices and versions; nothing is authorized.

        Arguments and errors are those of :meth:`decide`.
        """
        rows = zip(request_ids, account_ids, sides, strict=True)
        instances: list[dict[str, Any]] = [dict(zip(INPUTS, row, strict=True)) for row in rows]
        for row, instance in enumerate(instances):
            if partner_ids is not None:
                instance["partner_id"] = partner_ids[row]
            if sessions is not None:
                instance[SESSION] = sessions[row]
            if context:
                instance["context"] = {name: values[row] for name, values in context.items()}
        body = orjson.dumps({"instances": instances})
        content: dict[str, Any] = self._send("POST", self._explain, self._token, content=body)
        return content


class LedgerClient(_Client):
    """Client of the ledger; sends a token of the file that the environment names.

    ``campaign`` is needed where the ledger keeps several.
    """

    def __init__(self, url: str, campaign: str = "") -> None:
        super().__init__(url, {"campaign": campaign} if campaign else None)
        self._tokens = ledger_tokens(os.environ)

    def of(self, campaign: str) -> LedgerClient:
        """Return the client of another campaign that the ledger keeps, over the same connections."""
        other = copy(self)
        other._parameters = {"campaign": campaign}
        return other

    def _token(self, role: Role) -> str | None:
        return None if self._tokens is None else self._tokens.secret(role)

    def settle(self, outcomes: Sequence[Outcome], source: str) -> tuple[int, int]:
        """Report outcomes in one call, all or none; the event id is the request id, so a repeat counts nothing.

        Returns how many were new and how many had been taken before.

        Raises:
            NotFound: a request that was never decided; Conflict: it has another outcome; InvalidRequest: an impossible
            outcome; Unavailable: the ledger cannot write now.
        """
        return self._report(
            "/v1/outcomes", [_event(TYPE, source, outcome.request_id, outcome, ()) for outcome in outcomes]
        )

    def correct(self, corrections: Sequence[Correction], source: str) -> tuple[int, int]:
        """Correct outcomes in one call, all or none; an event id that was taken before counts nothing.

        Returns how many were new and how many had been taken before.

        Raises:
            NotFound, InvalidRequest, Unavailable: as of :meth:`settle`; Conflict: a request without an outcome, a
                cost without room, or an event id with another content.
        """
        more = ("kind", "override")
        events = [_event(CORRECTION_TYPE, source, correction.event_id, correction, more) for correction in corrections]
        return self._report("/v1/corrections", events)

    def _report(self, path: str, events: list[dict[str, Any]]) -> tuple[int, int]:
        headers = {"content-type": "application/cloudevents-batch+json"}
        content = self._send("POST", path, self._token("report"), content=orjson.dumps(events), headers=headers)
        return content["accepted"], content["repeated"]

    def release(self, campaign: str, request_ids: Sequence[str]) -> tuple[int, int]:
        """Return unused authorizations, all or none; those that are no longer open count as repeats.

        Raises:
            NotFound: a request that was never decided; Conflict: one is settled; Unavailable: see above.
        """
        body = {"campaign": campaign, "request_ids": list(request_ids)}
        content = self._send("POST", "/v1/releases", self._token("release"), content=orjson.dumps(body))
        return content["accepted"], content["repeated"]

    def move(self, campaign: str, step: Step, move: Move, end: State | None = None) -> State:
        """Take a step of a move of budget in a campaign's ledger, and return the state of its half.

        Raises:
            Conflict: the money is not there, or the move is recorded otherwise; Unavailable: send the step again.
        """
        body = {"campaign": campaign, "step": step, **move._asdict()} | ({} if end is None else {"end": end})
        role: Role = "administer" if step in RESTORING or move.held else "move"
        content = self._send("POST", "/v1/move", self._token(role), content=orjson.dumps(body))
        state: State = content["state"]
        return state

    def moves(self) -> list[MoveRow]:
        """Return the newest moves of the campaign and all that are under way, the oldest first."""
        content = self._send("GET", "/v1/moves", self._token("read"))
        return [MoveRow.read(row) for row in content["moves"]]

    def totals(self) -> dict[str, Any]:
        """Return the campaign's totals: spent, authorized, outstanding, money_left, requests and responses by side."""
        content: dict[str, Any] = self._send("GET", "/v1/totals", self._token("read"))
        return content

    def traffic(self, since: datetime | None = None, limit: int = 1000) -> dict[str, Any]:
        """Return requests by hour and side from ``since`` on, and the newest ``limit`` of them.

        ``since`` is the start of a quarter of an hour in UTC.
        """
        parameters: dict[str, Any] = {"limit": limit} | ({} if since is None else {"since": since.isoformat()})
        content: dict[str, Any] = self._send("GET", "/v1/traffic", self._token("read"), params=parameters)
        return content


def _event(type: str, source: str, event_id: str, outcome: Outcome, more: Sequence[str]) -> dict[str, Any]:
    names = ("request_id", "redeemed", "response", "cost", "observed_at", "amount", *more)
    data = {name: value for name in names if (value := getattr(outcome, name)) is not None}
    return {"specversion": "1.0", "type": type, "source": source, "id": event_id, "data": data}


def _error(status: int, message: str, content: Any, retry_after: str = "") -> ShadowpriceError:
    if status == NotFound.status:
        return NotFound(message)
    if status == Conflict.status:
        return Conflict(message)
    if 400 <= status < 500 and status not in LATER:
        refused = InvalidRequest(message)
        refused.field = content.get("field") if isinstance(content, dict) else None
        return refused
    wait = f"; send it again after {retry_after} s" if retry_after.isdecimal() else ""
    return Unavailable(f"answered {status}: {message}{wait}")
