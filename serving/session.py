"""Sessions of requests: what a person did before the voucher, checked and in order of time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from serving.http.limits import IDENTIFIER_RULE, MAX_BEHAVIORS, MAX_SESSION_LENGTH, is_identifier
from shadowprice.campaign.session import SESSION, SESSION_ACTIONS
from shadowprice.errors import InvalidRequest

NEEDED = ("item_id", "action", "ts")
TEXTS = ("item_id", "category", "brand")
FIELDS = (*NEEDED, "category", "brand", "price_level")
LEVELS = range(1, 8)
"""Price levels of an item."""
YEARS = range(1970, 2262)


def checked_sessions(values: Sequence[Any]) -> list[list[dict[str, Any]] | None]:
    """Return the behaviors of each session in order of time, with times in UTC; None where a request has none.

    A session is a list of behaviors, or its JSON text. One that is empty is a session in which nothing was done.

    Raises:
        InvalidRequest: names the field, such as ``session[2].ts``, and the request.
    """
    return [None if value in (None, "") else _session(value, row) for row, value in enumerate(values)]


def _session(value: Any, row: int) -> list[dict[str, Any]]:
    def refuse(reason: str, place: int | None = None, name: str = "") -> InvalidRequest:
        at = "" if place is None else f"[{place}]"
        return InvalidRequest(reason, field=f"{SESSION}{at}{'.' if name else ''}{name}", rows=[row])

    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError:
            raise refuse("must be a list of behaviors, or its JSON text") from None
    if not isinstance(value, list):
        raise refuse("must be a list of behaviors, or its JSON text")
    if len(value) > MAX_BEHAVIORS:
        raise refuse(f"has {len(value)} behaviors; at most {MAX_BEHAVIORS} are taken, send the newest")
    behaviors = []
    for place, given in enumerate(value):
        if not isinstance(given, dict):
            raise refuse(f"must be an object with {list(NEEDED)}", place)
        for name in given:
            if name not in FIELDS:
                raise refuse(f"is not read; a behavior has {list(FIELDS)}", place, name[:64])
        behavior = {name: given[name] for name in FIELDS if given.get(name) is not None}
        for name in NEEDED:
            if name not in behavior:
                raise refuse("is missing", place, name)
        for name in TEXTS:
            if name in behavior and not is_identifier(behavior[name]):
                raise refuse(IDENTIFIER_RULE, place, name)
        if behavior["action"] not in SESSION_ACTIONS:
            raise refuse(f"must be one of {list(SESSION_ACTIONS)}", place, "action")
        level = behavior.get("price_level", LEVELS[0])
        if type(level) is not int or level not in LEVELS:
            raise refuse(f"must be a whole number from {LEVELS[0]} to {LEVELS[-1]}", place, "price_level")
        behavior["ts"] = _instant(behavior["ts"])
        if not behavior["ts"]:
            raise refuse("must be a time since 1970 with a zone, such as 2026-11-01T12:30:00Z", place, "ts")
        behaviors.append(behavior)
    # The order of the training data: behaviors of one time are in order of item, price and brand.
    behaviors.sort(key=lambda each: (each["ts"], each["item_id"], each.get("price_level", 0), each.get("brand", "")))
    length = len(orjson.dumps(behaviors))
    if length > MAX_SESSION_LENGTH:
        raise refuse(f"has {length} bytes; at most {MAX_SESSION_LENGTH} are taken, send the newest behaviors")
    return behaviors


def _instant(text: Any) -> str:
    """Return a time in UTC, whose texts sort as times do, or nothing where it is none."""
    try:
        at = datetime.fromisoformat(text)
        # Tables have times in nanoseconds, which end in 2262.
        return at.astimezone(UTC).isoformat() if at.tzinfo and at.year in YEARS else ""
    except (TypeError, ValueError):
        return ""
