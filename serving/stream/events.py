"""Rows of the decision log as CloudEvents 1.0.

Source and id name a row for good: a repeat of an event has the same two, and the same data.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from shadowprice.pacing.decision_log.segments import RowKind

TYPES: Mapping[RowKind, str] = {
    "decisions": "shadowprice.decision.recorded.v1",
    "outcomes": "shadowprice.outcome.recorded.v1",
    "corrections": "shadowprice.correction.recorded.v1",
}
TIMES: Mapping[RowKind, str] = {"decisions": "decided_at", "outcomes": "recorded_at", "corrections": "recorded_at"}
"""Column with the time of an event."""
ONE, SEVERAL = "application/cloudevents+json", "application/cloudevents-batch+json"
"""Content types of the structured and of the batched mode."""


def event(kind: RowKind, row: Mapping[str, Any], campaign: str) -> dict[str, Any]:
    """Return the event of a row.

    The id is the request's, and of a correction the id and the source of the event that asked for it. The data are the
    columns of the log; money is in minor units.
    """
    name = row["request_id"]
    if kind == "corrections":
        # A quoted source has no slash, so two corrections never share an id.
        name = f"{quote(row['source'], safe='')}/{row['event_id']}"
    return {
        "specversion": "1.0",
        "id": name,
        "source": f"/shadowprice/{quote(campaign, safe='')}/{kind}",
        "type": TYPES[kind],
        "subject": row["request_id"],
        "time": row[TIMES[kind]],
        "datacontenttype": "application/json",
        "data": {"campaign": campaign, **row},
    }


def encoded(events: Sequence[Mapping[str, Any]], batched: bool) -> tuple[bytes, str]:
    """Return the body of some events, or of the only one, and its content type."""
    content = list(events) if batched else events[0]
    return orjson.dumps(content, option=orjson.OPT_UTC_Z), SEVERAL if batched else ONE
