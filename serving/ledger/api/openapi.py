"""Bodies and parameters in the ledger's OpenAPI; FastAPI reads neither, the endpoints parse them."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from serving.http.described import Described, answered, refused
from serving.http.limits import MAX_ITEMS, MAX_SAMPLE
from serving.ledger.api.corrections import CorrectionEnvelope
from serving.ledger.api.described import Alive, Authorized, MovesNow, MoveTaken, Ready, TotalsNow, TrafficNow
from serving.ledger.api.events import Envelope
from serving.ledger.api.messages import Authorizations, MoveStep, Releases
from serving.ledger.api.usage import OwnersNow
from serving.ledger.records import Counted

REFERENCE = "#/components/schemas/{model}"


def _events(envelope: type[Envelope]) -> dict[str, Any]:
    event = {"$ref": REFERENCE.format(model=envelope.__name__)}
    return {"anyOf": [event, {"type": "array", "items": event, "minItems": 1, "maxItems": MAX_ITEMS}]}


BODIES: dict[str, dict[str, Any]] = {
    "/v1/authorizations": {"$ref": REFERENCE.format(model=Authorizations.__name__)},
    "/v1/outcomes": _events(Envelope),
    "/v1/corrections": _events(CorrectionEnvelope),
    "/v1/releases": {"$ref": REFERENCE.format(model=Releases.__name__)},
    "/v1/move": {"$ref": REFERENCE.format(model=MoveStep.__name__)},
}
_SINCE = {
    "name": "since",
    "in": "query",
    "description": "start of a quarter of an hour in UTC, from which hours are counted; without it, all requests are",
    "schema": {"type": "string", "format": "date-time"},
}
_LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": MAX_SAMPLE}}

_OWNERS = [
    {"name": "name", "in": "query", "required": True, "description": "limit", "schema": {"type": "string"}},
    {
        "name": "of",
        "in": "query",
        "description": "campaign whose use it is, where several share the limit; without it, the one that is asked",
        "schema": {"type": "string"},
    },
    {"name": "after", "in": "query", "description": "``next`` of the call before", "schema": {"type": "string"}},
    _LIMIT | {"schema": {"type": "integer", "minimum": 1, "maximum": MAX_SAMPLE}},
]


def describe(route: str, campaigns: list[str]) -> dict[str, Any]:
    """Additions to the description of an endpoint."""
    added: dict[str, Any] = {}
    if route in BODIES:
        added["requestBody"] = {"required": True, "content": {"application/json": {"schema": BODIES[route]}}}
    named = {
        "name": "campaign",
        "in": "query",
        "required": len(campaigns) > 1,
        "schema": {"type": "string", "enum": campaigns},
    }
    events = {"/v1/outcomes": [named], "/v1/corrections": [named]} if len(campaigns) > 1 else {}
    reads = {
        "/v1/totals": [named],
        "/v1/moves": [named],
        "/v1/traffic": [named, _SINCE, _LIMIT],
        "/v1/usage": [named, *_OWNERS],
    }
    parameters = (reads | events).get(route, [])
    if parameters:
        added["parameters"] = parameters
    return added


_MALFORMED = {400: "Not JSON, or too much of it", 422: "The body says something that cannot be"}
_RECORDED = _MALFORMED | {
    404: "Another campaign, or a request that was never decided",
    409: "Recorded with other content",
}
_UNKNOWN = {404: "Another campaign"}
ANSWERS: dict[str, tuple[Any, dict[int, str]]] = {
    "/v1/authorizations": (Authorized, _MALFORMED | _UNKNOWN),
    "/v1/outcomes": (Counted, _RECORDED),
    "/v1/corrections": (Counted, _RECORDED),
    "/v1/releases": (Counted, _RECORDED),
    "/v1/move": (MoveTaken, _MALFORMED | _UNKNOWN | {409: "The money is not there, or the move is recorded otherwise"}),
    "/v1/moves": (MovesNow, _UNKNOWN),
    "/v1/totals": (TotalsNow, _UNKNOWN),
    "/v1/traffic": (TrafficNow, _UNKNOWN | {400: "A parameter is wrong"}),
    "/v1/usage": (OwnersNow, _UNKNOWN | {400: "A parameter is wrong"}),
    "/healthz": (Alive, {}),
    "/readyz": (Ready, {503: "Not ready, with the reason"}),
}
"""Route → body of its 200, and its own errors."""


def answered_by(route: str) -> Described:
    """Return the answers of a route by status."""
    if route not in ANSWERS:
        return {}
    body, errors = ANSWERS[route]
    guarded = refused("POST" if route in BODIES else "GET") if route.startswith("/v1/") else {}
    return answered(body, errors | guarded)


def described(app: FastAPI, campaigns: list[str]) -> dict[str, Any]:
    """The OpenAPI document of the ledger: FastAPI's, with the messages among its components."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _, definitions = models_json_schema(
            [(model, "validation") for model in (Authorizations, CorrectionEnvelope, Envelope, MoveStep, Releases)],
            ref_template=REFERENCE,
        )
        schemas = definitions["$defs"]
        for model in (Authorizations, MoveStep, Releases):
            schemas[model.__name__]["properties"]["campaign"] = {"type": "string", "enum": campaigns}
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        app.openapi_schema = document
    return app.openapi_schema
