"""Reading bodies and writing answers over HTTP, shared by the predictor and the ledger."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from serving.limits import MAX_BODY_BYTES
from shadowprice.errors import InvalidInput, InvalidRequest, ShadowpriceError

logger = logging.getLogger("serving")


class BodyTooLarge(InvalidRequest):
    """The body is longer than this service reads."""

    status = 413


async def read_body(request: Request) -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge: more than ``MAX_BODY_BYTES``, whether or not a length was announced.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(f"is longer than {MAX_BODY_BYTES} bytes; send fewer items per call", field="body")
        chunks.append(chunk)
    return b"".join(chunks)


def parse_json(body: bytes) -> Any:
    """The JSON value of a body, or :class:`InvalidRequest`."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"is not JSON: {error}", field="body") from None


def json_response(content: Any, status: int = 200) -> Response:
    """An answer of plain types and numpy arrays as JSON."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type="application/json")


def refusal(error: ShadowpriceError) -> dict[str, Any]:
    """What a caller is told: ``{"error"}``, and ``field`` and ``rows`` where his input is wrong."""
    content: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InvalidInput):
        content |= {"field": error.field, "rows": list(error.rows)}
    return content


def error_response(error: ShadowpriceError) -> Response:
    """:func:`refusal` with the status of the error's class."""
    return json_response(refusal(error), error.status)


Handler = Callable[[Request], Awaitable[Response]]


def answering(handler: Handler) -> Handler:
    """A handler whose deliberate errors become answers and whose faults are logged, not told."""

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
