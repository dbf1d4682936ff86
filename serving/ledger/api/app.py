"""The ledger over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

import orjson
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, exposition
from pydantic import AwareDatetime, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.http.access import Access
from serving.http.handler import Application, RequestHandler, in_framework
from serving.http.tokens import Caller, Tokens
from serving.http.web import answering, json_response, read_body
from serving.ledger.api.answers import content, recorded_rows
from serving.ledger.api.authorise import calls, ceiling, entries
from serving.ledger.api.corrections import corrections, needs_administrator, read_corrections
from serving.ledger.api.events import read_events
from serving.ledger.api.guard import require, role_of
from serving.ledger.api.headroom import HeadroomCollector
from serving.ledger.api.messages import Authorizations, Releases, parse
from serving.ledger.api.metrics import LedgerCollector
from serving.ledger.api.openapi import describe, described
from serving.ledger.api.settle import outcomes
from serving.ledger.api.skew import ClockSkew
from serving.ledger.api.usage import limits_now
from serving.ledger.api.watch import WatchCollector
from serving.ledger.clock import microseconds
from serving.ledger.store import Store
from serving.ledger.terms import offered
from serving.ledger.traffic import MAX_SAMPLE, QUARTER
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidRequest, NotFound, Unavailable

AUTHORIZATIONS = TypeAdapter(Authorizations)
RELEASES = TypeAdapter(Releases)
TIME = TypeAdapter(AwareDatetime)
AUTHORISE = "/v1/authorizations"


Trouble = Callable[[], str | None]


class Ledger:
    """Endpoints of the ledger of one campaign."""

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        hard_stop: bool,
        volumes: Mapping[str, Path],
        troubles: Sequence[Trouble],
        verdict: Path | None,
    ) -> None:
        self.campaign = campaign
        self.store = store
        self._troubles = (lambda: store.trouble, *troubles)
        self._ceiling = ceiling(campaign, hard_stop)
        # One at a time, so that callers of the traffic never take all threads.
        self._traffic_turn = asyncio.Semaphore(1)
        self.collector = LedgerCollector(campaign, store.totals, store.usage, ClockSkew(store.dates).seconds)
        self.registry = CollectorRegistry()
        self.registry.register(self.collector)
        self.registry.register(HeadroomCollector(campaign.name, store.storage, volumes))
        if verdict is not None:
            self.registry.register(WatchCollector(campaign, verdict))

    async def authorise(self, body: bytes, _: Caller) -> bytes:
        """POST /v1/authorizations."""
        batch = parse(AUTHORIZATIONS, body)
        now = datetime.now(UTC)
        wanted = calls(batch, entries(self.campaign, batch, now))
        answers = await asyncio.wrap_future(self.store.authorise(wanted, self._ceiling, microseconds(now)))
        recorded, places = recorded_rows(batch, answers)
        for each in recorded:
            if each.repeat:
                self.collector.count_repeat(each.decision.side, each.decision.level)
        return orjson.dumps(content(recorded, places, answers))

    async def settle(self, request: Request) -> Response:
        """POST /v1/outcomes."""
        events = read_events(await read_body(request), request.headers)
        now = datetime.now(UTC)
        decided = await run_in_threadpool(self.store.find, [event.request_id for event in events])
        made = outcomes(self.campaign, events, decided, now)
        return json_response(await asyncio.wrap_future(self.store.settle(made, self._ceiling, microseconds(now))))

    async def correct(self, request: Request) -> Response:
        """POST /v1/corrections."""
        events = read_corrections(await read_body(request), request.headers)
        if needs_administrator(events):
            require(request, "administer")
        now = datetime.now(UTC)
        decided = await run_in_threadpool(self.store.find, [each.event.request_id for each in events])
        made = corrections(self.campaign, events, decided, now, request.scope["caller"].name)
        return json_response(await asyncio.wrap_future(self.store.correct(made, self._ceiling, microseconds(now))))

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
        limits = await run_in_threadpool(limits_now, self.campaign, self.store.usage, now)
        return json_response(
            {
                "campaign": self.campaign.name,
                "observed_at": now,
                "budget": self.campaign.to_dict()["budget"],
                "spent": sum(totals.spent.values()),
                "spent_by_side": totals.spent,
                "refunded_by_side": totals.refunded,
                "net_spent": totals.net_spent,
                "overridden_by_side": totals.overridden,
                "authorised": sum(totals.authorised.values()),
                "outstanding": sum(totals.outstanding.values()),
                "money_left": totals.money_left(self.campaign, now),
                "requests": totals.requests,
                "responses": totals.responses,
                "withdrawn_by_side": totals.withdrawn,
                "outcomes": totals.outcomes,
                "corrections_by_side": totals.corrected,
                "late_by_side": totals.late,
                "authorised_by_side": totals.authorised,
                "limits": [asdict(each) for each in limits],
            }
        )

    async def traffic(self, request: Request) -> Response:
        """GET /v1/traffic."""
        self._check_campaign(_campaign(request, self.campaign))
        since, limit = _since(request), _limit(request)
        async with self._traffic_turn:
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
        """GET /readyz: it can read, its newest write succeeded, and its store has all that was recorded."""
        for trouble in self._troubles:
            reason = trouble()
            if reason is not None:
                raise Unavailable(reason)
        await run_in_threadpool(self.store.totals)
        if not self.store.alive:
            raise Unavailable("the ledger's writer has stopped; restart the service")
        return json_response({"status": "ready", "campaign": self.campaign.name, "levels": offered(self.campaign)})

    def _check_campaign(self, name: str) -> None:
        if name != self.campaign.name:
            raise NotFound(f"campaign {name!r} is not kept here; this is {self.campaign.name!r}")


Background = Callable[[], AbstractContextManager[None]]


def create_app(
    store: Store,
    campaign: Campaign,
    *,
    hard_stop: bool,
    tokens: Tokens | None = None,
    calls_per_second: float = 0.0,
    background: Sequence[Background] = (),
    volumes: Mapping[str, Path] = MappingProxyType({}),
    troubles: Sequence[Trouble] = (),
    verdict: Path | None = None,
) -> Application:
    """Return the application of a campaign's ledger, which closes its store at the end.

    ``tokens`` are those that callers must show, and ``calls_per_second`` the rate of each caller (0: no limit).
    ``background`` is what runs beside the endpoints while they are served, such as the sweep. ``troubles``
    are functions that return why the ledger is not ready, beside the store's own reasons; None where all is well.
    ``volumes`` are the folders whose free space is exported, by name. ``verdict`` is the file of the watch on the
    served model, whose findings are exported.
    """
    ledger = Ledger(store, campaign, hard_stop, volumes, troubles, verdict)

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
        ("/v1/corrections", ledger.correct, "POST"),
        ("/v1/releases", ledger.release, "POST"),
        ("/v1/totals", ledger.totals, "GET"),
        ("/v1/traffic", ledger.traffic, "GET"),
        ("/metrics", ledger.metrics, "GET"),
        ("/healthz", ledger.health, "GET"),
        ("/readyz", ledger.readiness, "GET"),
    ):
        app.add_api_route(
            route,
            answering(endpoint),
            methods=[method],
            name=endpoint.__name__,
            description=endpoint.__doc__,
            openapi_extra=describe(route, campaign.name),
        )
    return RequestHandler(app, {AUTHORISE: ledger.authorise}, Access(role_of, tokens, calls_per_second))


def _campaign(request: Request, campaign: Campaign) -> str:
    return str(request.query_params.get("campaign", campaign.name))


def _since(request: Request) -> int:
    text = request.query_params.get("since")
    if text is None:
        return 0
    try:
        since = microseconds(TIME.validate_strings(text))
    except ValueError:
        raise InvalidRequest(
            "must be a time with its offset from UTC, such as 2024-05-01T12:00:00Z", field="since"
        ) from None
    if since % QUARTER:
        raise InvalidRequest(
            "must be the start of a quarter of an hour in UTC, such as 2024-05-01T12:15:00Z; round it down",
            field="since",
        )
    return since


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "1000")
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_SAMPLE):
        raise InvalidRequest(f"must be a whole number from 0 to {MAX_SAMPLE}", field="limit")
    return int(text)
