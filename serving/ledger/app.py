"""The ledger over HTTP."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TypeVar

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, exposition
from pydantic import AwareDatetime, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.ledger.authorise import Authorise
from serving.ledger.database import create, open_for_reading
from serving.ledger.events import Envelope, read_events
from serving.ledger.messages import Authorizations, parse
from serving.ledger.metrics import LedgerCollector
from serving.ledger.settle import Settle
from serving.ledger.totals import Totals, read_totals
from serving.ledger.traffic import MAX_SAMPLE, read_traffic
from serving.ledger.writer import Writer
from serving.web import answering, json_response, read_body
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidRequest, NotFound, Unavailable

Result = TypeVar("Result")
AUTHORIZATIONS = TypeAdapter(Authorizations)
TIME = TypeAdapter(AwareDatetime)


class Ledger:
    """The endpoints over one database."""

    def __init__(self, path: Path, campaign: Campaign, hard_stop: bool) -> None:
        create(path, campaign.name)
        self.campaign = campaign
        self.hard_stop = hard_stop
        self.writer = Writer(path)
        self._database = open_for_reading(path)
        self._reading = Lock()
        self.collector = LedgerCollector(campaign, lambda: self._read(self._read_totals))
        self.registry = CollectorRegistry()
        self.registry.register(self.collector)

    def close(self) -> None:
        """Finish writing and let go of the file."""
        self.writer.close()
        self._database.close()

    async def authorise(self, request: Request) -> Response:
        """POST /v1/authorizations."""
        batch = parse(AUTHORIZATIONS, await read_body(request))
        job = Authorise(self.campaign, self.hard_stop, batch, datetime.now(UTC))
        decisions = await asyncio.wrap_future(self.writer.submit(job))
        for item, decision in zip(batch.items, decisions, strict=True):
            if decision.repeat:
                self.collector.count_repeat(item.side, decision.level)
        return json_response({"decisions": decisions})

    async def settle(self, request: Request) -> Response:
        """POST /v1/outcomes."""
        events = read_events(await read_body(request), request.headers)
        job = Settle(self.campaign, events, datetime.now(UTC))
        return json_response(await asyncio.wrap_future(self.writer.submit(job)))

    async def totals(self, request: Request) -> Response:
        """GET /v1/totals."""
        self._check_campaign(request)
        now = datetime.now(UTC)
        totals = await run_in_threadpool(self._read, self._read_totals)
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
            }
        )

    async def traffic(self, request: Request) -> Response:
        """GET /v1/traffic."""
        self._check_campaign(request)
        since, limit = _since(request), _limit(request)
        traffic = await run_in_threadpool(self._read, lambda database: read_traffic(database, since, limit))
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
        await run_in_threadpool(self._read, self._read_totals)
        if not self.writer.alive:
            raise Unavailable("the ledger's writer has stopped; restart the service")
        return json_response({"status": "ready", "campaign": self.campaign.name})

    def _read_totals(self, database: sqlite3.Connection) -> Totals:
        return read_totals(database, self.campaign)

    def _read(self, query: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._reading:
            try:
                # One transaction, so that all that is read belongs together.
                self._database.execute("BEGIN")
                try:
                    return query(self._database)
                finally:
                    self._database.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise Unavailable(f"the ledger cannot be read: {error}") from error

    def _check_campaign(self, request: Request) -> None:
        name = request.query_params.get("campaign", self.campaign.name)
        if name != self.campaign.name:
            raise NotFound(f"campaign {name!r} is not kept here; this is {self.campaign.name!r}")


def create_app(path: Path, campaign: Campaign, *, hard_stop: bool) -> FastAPI:
    """The ledger of ``campaign`` in the sqlite file ``path``.

    Raises:
        Conflict: the file belongs to another campaign.
        Unavailable: the file cannot be used.
    """
    ledger = Ledger(path, campaign, hard_stop)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        ledger.close()

    app = FastAPI(title="shadowprice ledger", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    for route, endpoint, method, documented in (
        ("/v1/authorizations", ledger.authorise, "POST", Authorizations),
        ("/v1/outcomes", ledger.settle, "POST", Envelope),
        ("/v1/totals", ledger.totals, "GET", None),
        ("/v1/traffic", ledger.traffic, "GET", None),
        ("/metrics", ledger.metrics, "GET", None),
        ("/healthz", ledger.health, "GET", None),
        ("/readyz", ledger.readiness, "GET", None),
    ):
        schema = {"application/json": {"schema": documented.model_json_schema()}} if documented else None
        app.add_api_route(
            route,
            answering(endpoint),
            methods=[method],
            name=endpoint.__name__,
            description=endpoint.__doc__,
            openapi_extra={"requestBody": {"content": schema, "required": True}} if schema else None,
        )
    return app


def _since(request: Request) -> datetime | None:
    text = request.query_params.get("since")
    if text is None:
        return None
    try:
        return TIME.validate_strings(text)
    except ValueError:
        raise InvalidRequest(
            "must be a time with its offset from UTC, such as 2024-05-01T12:00:00Z", field="since"
        ) from None


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "1000")
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_SAMPLE):
        raise InvalidRequest(f"must be a whole number from 0 to {MAX_SAMPLE}", field="limit")
    return int(text)
