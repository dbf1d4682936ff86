"""The ledger over HTTP: the ledgers of one or several campaigns, each asked by the name of its campaign."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Metric, exposition
from prometheus_client.registry import Collector
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from serving.http.access import Access
from serving.http.docs import add_docs
from serving.http.handler import Application, RequestHandler, in_framework, in_thread
from serving.http.tokens import Caller, Tokens
from serving.http.web import answering, json_response, read_body
from serving.ledger.api.corrections import needs_administrator, read_corrections
from serving.ledger.api.events import read_events
from serving.ledger.api.guard import require, role_of
from serving.ledger.api.ledger import Ledger
from serving.ledger.api.messages import Authorizations, MoveStep, Releases, parse
from serving.ledger.api.openapi import answered_by, describe, described
from serving.ledger.moves import RESTORING
from serving.ledger.store import Store
from shadowprice.errors import InvalidRequest, NotFound

AUTHORIZATIONS = TypeAdapter(Authorizations)
RELEASES = TypeAdapter(Releases)
MOVE_STEPS = TypeAdapter(MoveStep)
AUTHORIZE = "/v1/authorizations"


class Ledgers:
    """Endpoints of the ledgers of one process.

    A message names its campaign. An event has no field for it: the parameter ``campaign`` of the address does, and may
    be left out where there is one campaign.
    """

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = {ledger.campaign.name: ledger for ledger in ledgers}
        self.registry = CollectorRegistry()
        self.registry.register(Families([collector for ledger in ledgers for collector in ledger.collectors]))

    @property
    def names(self) -> list[str]:
        """Campaigns that are kept here."""
        return list(self._ledgers)

    @property
    def stores(self) -> list[Store]:
        """Their stores."""
        return [ledger.store for ledger in self._ledgers.values()]

    async def authorize(self, body: bytes, _: Caller) -> bytes:
        """POST /v1/authorizations."""
        batch = parse(AUTHORIZATIONS, body)
        return await self._of(batch.campaign).authorize(batch)

    async def settle(self, request: Request) -> Response:
        """POST /v1/outcomes."""
        events = read_events(await read_body(request), request.headers)
        return json_response(await self._named(request).settle(events, request.scope["caller"].name))

    async def correct(self, request: Request) -> Response:
        """POST /v1/corrections."""
        events = read_corrections(await read_body(request), request.headers)
        if needs_administrator(events):
            require(request, "administer")
        return json_response(await self._named(request).correct(events, request.scope["caller"].name))

    async def release(self, request: Request) -> Response:
        """POST /v1/releases."""
        releases = parse(RELEASES, await read_body(request))
        return json_response(await self._of(releases.campaign).release(releases))

    async def move(self, request: Request) -> Response:
        """POST /v1/move."""
        step = parse(MOVE_STEPS, await read_body(request))
        if step.step in RESTORING or step.move.held:
            require(request, "administer")
        return json_response(await self._of(step.campaign).move(step))

    async def moves(self, request: Request) -> Response:
        """GET /v1/moves."""
        return json_response(await self._named(request).moves())

    async def totals(self, request: Request) -> Response:
        """GET /v1/totals."""
        return json_response(await self._named(request).totals())

    async def traffic(self, request: Request) -> Response:
        """GET /v1/traffic."""
        return json_response(await self._named(request).traffic(request))

    async def usage(self, request: Request) -> Response:
        """GET /v1/usage."""
        return json_response(await self._named(request).usage(request))

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        encoder, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        text = await in_thread(request, partial(encoder, self.registry))
        return Response(text, headers={"content-type": content_type})

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - every endpoint takes the request
        """GET /healthz: the process answers."""
        return json_response({"status": "alive"})

    async def readiness(self, request: Request) -> Response:
        """GET /readyz: every ledger, or that of the parameter ``campaign``, is ready."""
        if "campaign" in request.query_params:
            named = self._named(request)
            return json_response({"status": "ready", **await in_thread(request, named.check_ready)})
        return json_response(await in_thread(request, self.check_ready))

    def check_ready(self) -> dict[str, Any]:
        """Return what readiness says of every ledger, or raise ``Unavailable``."""
        ready = [ledger.check_ready() for ledger in self._ledgers.values()]
        return {"status": "ready", **(ready[0] if len(ready) == 1 else {"campaigns": ready})}

    def _named(self, request: Request) -> Ledger:
        name = request.query_params.get("campaign")
        if name is None and len(self._ledgers) > 1:
            raise InvalidRequest(f"must be in the address (?campaign=…), one of {self.names}", field="campaign")
        return self._of(self.names[0] if name is None else name)

    def _of(self, name: str) -> Ledger:
        ledger = self._ledgers.get(name)
        if ledger is None:
            kept = self.names[0] if len(self._ledgers) == 1 else self.names
            raise NotFound(f"campaign {name!r} is not kept here; this is {kept!r}")
        return ledger


class Families(Collector):
    """Joins the families of several collectors by name: a family is described once in a scrape."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        metrics: dict[str, Metric] = {}
        for family in (family for collector in self._collectors for family in collector.collect()):
            metrics.setdefault(family.name, family)
            if metrics[family.name] is not family:
                metrics[family.name].samples.extend(family.samples)
        yield from metrics.values()


Background = Callable[[], AbstractContextManager[None]]


def serve(
    kept: Ledgers,
    *,
    tokens: Tokens | None = None,
    calls_per_second: float = 0.0,
    background: Sequence[Background] = (),
) -> Application:
    """Return the application of several ledgers, which closes their stores at the end.

    ``tokens`` are those that callers must show, and ``calls_per_second`` the rate of each caller (0: no limit).
    ``background`` is what runs beside the endpoints while they are served, such as the sweep.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as running:
            for store in kept.stores:
                running.callback(store.close)
            for start in background:
                running.enter_context(start())
            yield

    app = FastAPI(
        title="shadowprice ledger",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.openapi = partial(described, app, kept.names)  # type: ignore[method-assign]
    for route, endpoint, method in (
        (AUTHORIZE, in_framework(kept.authorize), "POST"),
        ("/v1/outcomes", kept.settle, "POST"),
        ("/v1/corrections", kept.correct, "POST"),
        ("/v1/releases", kept.release, "POST"),
        ("/v1/move", kept.move, "POST"),
        ("/v1/moves", kept.moves, "GET"),
        ("/v1/totals", kept.totals, "GET"),
        ("/v1/traffic", kept.traffic, "GET"),
        ("/v1/usage", kept.usage, "GET"),
        ("/metrics", kept.metrics, "GET"),
        ("/healthz", kept.health, "GET"),
        ("/readyz", kept.readiness, "GET"),
    ):
        app.add_api_route(
            route,
            answering(endpoint),
            methods=[method],
            name=endpoint.__name__,
            description=endpoint.__doc__,
            openapi_extra=describe(route, kept.names),
            response_class=PlainTextResponse if route == "/metrics" else JSONResponse,
            responses=answered_by(route),
        )
    add_docs(app)
    return RequestHandler(app, {AUTHORIZE: kept.authorize}, Access(role_of, tokens, calls_per_second))
