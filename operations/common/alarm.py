"""Start a retrain when the watch alarms on the served model."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from operations.common.workspace import MODEL, alarms_on, read_campaign
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta

STARTED = "retrain-on-alarm.json"
"""File of a workspace with the time of the last retrain that an alarm started."""


def retrain_on_alarm(workspace: Path, hours: float, start: Callable[[], str], now: datetime | None = None) -> str:
    """Start a retrain where the last verdict alarms on the registered model; return what was done, in words.

    A new model ends the alarm, because a verdict is on one model. A retrain that the gate refuses is tried again after
    ``hours``.

    Args:
        workspace: folder with campaign, model and verdict.
        hours: least time between two starts.
        start: starts the retrain and returns the name of its run; a start that raises is not counted.
        now: UTC; by default the present.

    Raises:
        InvalidInput: ``hours`` is negative, or the verdict or the record of the last start is damaged.
        Unavailable: of ``start``.
    """
    if hours < 0:
        raise InvalidInput("must not be negative", field="hours")
    at, record = now or datetime.now(UTC), workspace / STARTED
    model = str(read_meta((workspace / MODEL).resolve())["model_version"])
    if not alarms_on(workspace, read_campaign(workspace).name, model):
        return f"no alarm on model {model}"
    try:
        before = datetime.fromisoformat(json.loads(record.read_bytes())["at"])
    except FileNotFoundError:
        before = None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"is not a record of a start ({error}); remove it", field=str(record)) from error
    if before is not None and at - before < timedelta(hours=hours):
        return f"the watch alarms on model {model}; a retrain was started at {before:%Y-%m-%d %H:%M} UTC"
    run = start()
    write_whole(record, json.dumps({"at": at.isoformat(), "model_version": model, "run": run}))
    return f"the watch alarms on model {model}: started {run}"
