"""Errors of a route, as an OpenAPI description lists them."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from serving.http.refused import BodyTooLarge, Forbidden, NotJson, Overloaded, TooManyCalls, TooSlow, Unauthorized

OF_EACH_CALL = (Unauthorized, Forbidden, TooSlow, BodyTooLarge, TooManyCalls, Overloaded)
OF_EACH_POST = (*OF_EACH_CALL, NotJson)
Described = dict[int | str, dict[str, Any]]
"""Status → its entry, as FastAPI takes them; a ``model`` is described, and no answer is checked against it."""


class Error(BaseModel):
    """Answer of every status from 400 on.

    error  the problem, its place and what to do
    field  field that is wrong, where the caller's input is
    rows   first wrong items of a list, from 0 on
    """

    error: str
    field: str | None = None
    rows: list[int] = []


def answered(answer: Any, errors: Mapping[int, str]) -> Described:
    """Return the entries of a status 200, whose body is an ``answer``, and of errors by status."""
    failures: Described = {status: {"description": cause, "model": Error} for status, cause in errors.items()}
    return {
        200: {"description": "Done", "model": answer},
        **failures,
        "default": {"description": "Other", "model": Error},
    }


def refused(method: str) -> dict[int, str]:
    """Return status and cause of the refusals of a guarded route."""
    classes = OF_EACH_POST if method == "POST" else OF_EACH_CALL
    return {class_.status: (class_.__doc__ or "").splitlines()[0] for class_ in classes}
