"""Parameters of the ledger's queries."""

from typing import NamedTuple

from pydantic import AwareDatetime, TypeAdapter
from starlette.requests import Request

from serving.http.limits import MAX_SAMPLE
from serving.ledger.clock import microseconds
from serving.ledger.traffic import QUARTER
from shadowprice.errors import InvalidRequest

TIME = TypeAdapter(AwareDatetime)


def since_of(request: Request) -> int:
    """Return the start of the traffic in microseconds since 1970 (UTC); 0 where none is given."""
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


class Wanted(NamedTuple):
    """Part of the use of a limit that is asked for.

    name   of the limit
    of     campaign whose use it is; empty: the one that is asked
    after  where the call before ended; empty: the begin
    limit  most owners
    """

    name: str
    of: str
    after: str
    limit: int


def wanted_of(request: Request) -> Wanted:
    """Return the part of the use of a limit that a request asks for."""
    query = request.query_params
    limit = limit_of(request)
    if limit < 1:
        raise InvalidRequest(f"must be a whole number from 1 to {MAX_SAMPLE}", field="limit")
    return Wanted(query.get("name", ""), query.get("of", ""), query.get("after", ""), limit)


def limit_of(request: Request) -> int:
    """Return the number of newest requests that are asked for."""
    text = request.query_params.get("limit", "1000")
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_SAMPLE):
        raise InvalidRequest(f"must be a whole number from 0 to {MAX_SAMPLE}", field="limit")
    return int(text)
