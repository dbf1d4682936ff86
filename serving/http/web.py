"""Reading bodies and writing answers over HTTP, shared by the predictor and the ledger."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from serving.http.limits import MAX_COMMAS, MAX_OPENINGS
from shadowprice.errors import InvalidInput, InvalidRequest, ShadowpriceError

logger = logging.getLogger("serving")


async def read_body(request: Request) -> bytes:
    """Return the whole body, whose length the request handler has bounded."""
    return await request.body()


def check_structure(body: bytes) -> None:
    """Refuse a body of a million values or empty lists before a parser makes objects of them.

    Raises:
        InvalidRequest: more than ``MAX_COMMAS`` commas or ``MAX_OPENINGS`` opening brackets.
    """
    if body.count(b",") > MAX_COMMAS:
        raise InvalidRequest(f"has more than {MAX_COMMAS} commas", field="body")
    if body.count(b"[") + body.count(b"{") > MAX_OPENINGS:
        raise InvalidRequest(f"has more than {MAX_OPENINGS} opening brackets", field="body")


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a body, or raise :class:`InvalidRequest`."""
    check_structure(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"is not JSON: {error}", field="body") from None


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer of plain types and numpy arrays as JSON."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type="application/json")


def refusal(error: ShadowpriceError) -> dict[str, Any]:
    """Body of an error: ``{"error"}``, and ``field`` and ``rows`` where the caller's input is wrong."""
    content: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InvalidInput):
        content |= {"field": error.field, "rows": list(error.rows)}
    return content


def error_response(error: ShadowpriceError) -> Response:
    """:func:`refusal` with the status of the error's class."""
    return json_response(refusal(error), error.status)


Handler = Callable[[Request], Awaitable[Response]]


def answering(handler: Handler) -> Handler:
    """Return a handler that answers deliberate errors, and logs faults without repeating them to the caller."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ShadowpriceError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            return json_response({"error": "internal error; see the log of the service"}, 500)

    return answer
