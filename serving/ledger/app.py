"""The ledger over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

import orjson
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, exposition
from pydantic import AwareDatetime, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.front import Application, Front, in_framework
from serving.ledger.authorise import ceiling, entries
from serving.ledger.events import read_events
from serving.ledger.guard import guarded
from serving.ledger.messages import Authorizations, Releases, parse
from serving.ledger.metrics import LedgerCollector
from serving.ledger.openapi import describe, described
from serving.ledger.settle import outcomes
from serving.ledger.store import Decision, Recorded, Store, microseconds
from serving.ledger.traffic import MAX_SAMPLE
from serving.web import answering, json_response, read_body
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidRequest, NotFound, Unavailable

AUTHORIZATIONS = TypeAdapter(Authorizations)
RELEASES = TypeAdapter(Releases)
TIME = TypeAdapter(AwareDatetime)
AUTHORISE = "/v1/authorizations"
TOLD = ("request_id", "level", "incentive", "response", "expected_cost", "propensity", "reason")


class Ledger:
    """The endpoints over the books of one campaign."""

    def __init__(self, store: Store, campaign: Campaign, hard_stop: bool) -> None:
        self.campaign = campaign
        self.store = store
        self._ceiling = ceiling(campaign, hard_stop)
        self.collector = LedgerCollector(campaign, store.totals)
        self.registry = CollectorRegistry()
        self.registry.register(self.collector)

    async def authorise(self, body: bytes) -> bytes:
        """POST /v1/authorizations."""
        batch = parse(AUTHORIZATIONS, body)
        now = datetime.now(UTC)
        wanted = entries(self.campaign, batch, now)
        recorded = await asyncio.wrap_future(self.store.authorise(wanted, self._ceiling, microseconds(now)))
        for each in recorded:
            if each.repeat:
                self.collector.count_repeat(each.decision.side, each.decision.level)
        return orjson.dumps({"decisions": _told(recorded)})

    async def settle(self, request: Request) -> Response:
        """POST /v1/outcomes."""
        events = read_events(await read_body(request), request.headers)
        now = datetime.now(UTC)
        decided = await run_in_threadpool(self.store.find, [event.request_id for event in events])
        made = outcomes(self.campaign, events, decided, now)
        return json_response(await asyncio.wrap_future(self.store.settle(made, microseconds(now))))

    async def release(self, request: Request) -> Response:
        """POST /v1/releases."""
        given = parse(RELEASES, await read_body(request))
        self._check_campaign(given.campaign)
        wanted = list(dict.fromkeys(given.request_ids))
        decided = await run_in_threadpool(self.store.find, wanted)
        for index, request_id in enumerate(given.request_ids):
            if request_id not in decided:
                raise NotFound(f"request_ids[{index}]: request {request_id!r} was never decided")
        now = microseconds(datetime.now(UTC))
        return json_response(await asyncio.wrap_future(self.store.release(wanted, now)))

    async def totals(self, request: Request) -> Response:
        """GET /v1/totals."""
        self._check_campaign(_campaign(request, self.campaign))
        now = datetime.now(UTC)
        totals = await run_in_threadpool(self.store.totals)
        return json_response(
            {
                "campaign": self.campaign.name,
                "observed_at": now,
                "budget": self.campaign.to_dict()["budget"],
                "spent": sum(totals.spent.values()),
                "spent_by_side": totals.spent,
                "authorised": sum(totals.authorised.values()),
                "outstanding": sum(totals.outstanding.values()),
                "money_left": totals.money_left(self.campaign, now),
                "requests": totals.requests,
                "responses": totals.responses,
                "outcomes": totals.outcomes,
                "late_by_side": totals.late,
                "authorised_by_side": totals.authorised,
            }
        )

    async def traffic(self, request: Request) -> Response:
        """GET /v1/traffic."""
        self._check_campaign(_campaign(request, self.campaign))
        since, limit = _since(request), _limit(request)
        traffic = await run_in_threadpool(self.store.traffic, since, limit)
        return json_response({"campaign": self.campaign.name, **asdict(traffic)})

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        encoder, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(await run_in_threadpool(encoder, self.registry), headers={"content-type": content_type})

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - every endpoint takes the request
        """GET /healthz: the process answers."""
        return json_response({"status": "alive"})

    async def readiness(self, request: Request) -> Response:  # noqa: ARG002
        """GET /readyz: it can read and write."""
        await run_in_threadpool(self.store.totals)
        if not self.store.alive:
            raise Unavailable("the ledger's writer has stopped; restart the service")
        return json_response({"status": "ready", "campaign": self.campaign.name})

    def _check_campaign(self, name: str) -> None:
        if name != self.campaign.name:
            raise NotFound(f"campaign {name!r} is not kept here; this is {self.campaign.name!r}")


Background = Callable[[], AbstractContextManager[None]]


def create_app(
    store: Store,
    campaign: Campaign,
    *,
    hard_stop: bool,
    token: str | None = None,
    background: Sequence[Background] = (),
) -> Application:
    """The ledger of ``campaign`` over its books, which it closes at its end; what every answer waits for is ahead.

    ``token`` is what callers must show, except of the metrics and the probes, which carry no names of
    accounts. ``background`` is what runs beside the endpoints while they are served, such as the sweep.
    """
    ledger = Ledger(store, campaign, hard_stop)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as running:
            running.callback(store.close)
            for each in background:
                running.enter_context(each())
            yield

    app = FastAPI(title="shadowprice ledger", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.openapi = partial(described, app, campaign.name)  # type: ignore[method-assign]
    for route, endpoint, method in (
        (AUTHORISE, in_framework(ledger.authorise), "POST"),
        ("/v1/outcomes", ledger.settle, "POST"),
        ("/v1/releases", ledger.release, "POST"),
        ("/v1/totals", ledger.totals, "GET"),
        ("/v1/traffic", ledger.traffic, "GET"),
        ("/metrics", ledger.metrics, "GET"),
        ("/healthz", ledger.health, "GET"),
        ("/readyz", ledger.readiness, "GET"),
    ):
        app.add_api_route(
            route,
            answering(guarded(endpoint, token if route.startswith("/v1/") else None)),
            methods=[method],
            name=endpoint.__name__,
            description=endpoint.__doc__,
            openapi_extra=describe(route, campaign.name),
        )
    return Front(app, {AUTHORISE: ledger.authorise}, token)


def _told(recorded: Sequence[Recorded]) -> dict[str, object]:
    """What the predictor is told, as columns."""
    columns = dict(zip(Decision._fields, zip(*(each.decision for each in recorded), strict=True), strict=True))
    return {name: columns[name] for name in TOLD} | {"repeat": [each.repeat for each in recorded]}


def _campaign(request: Request, campaign: Campaign) -> str:
    return str(request.query_params.get("campaign", campaign.name))


def _since(request: Request) -> int:
    text = request.query_params.get("since")
    if text is None:
        return 0
    try:
        return microseconds(TIME.validate_strings(text))
    except ValueError:
        raise InvalidRequest(
            "must be a time with its offset from UTC, such as 2024-05-01T12:00:00Z", field="since"
        ) from None


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "1000")
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_SAMPLE):
        raise InvalidRequest(f"must be a whole number from 0 to {MAX_SAMPLE}", field="limit")
    return int(text)
