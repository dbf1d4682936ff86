"""Start a retrain when the watch alarms on the served model."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from operations.common.workspace import MODEL, alarms_on, read_campaign
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.files import lock_file, write_whole
from shadowprice.learning.bundle import read_meta

STARTED = "retrain-on-alarm.json"
"""File of a workspace with the time of the last retrain that an alarm started."""
LOCK = "retrain-on-alarm.lock"
"""File of a workspace that a process locks while it starts a retrain, or runs one."""


def retrain_on_alarm(
    workspace: Path, hours: float, start: Callable[[], str], now: datetime | None = None, *, blocking: bool = False
) -> str:
    """Start a retrain where the last verdict alarms on the registered model; return what was done, in words.

    A new model ends the alarm, because a verdict is on one model. A retrain that the gate refuses is tried again after
    ``hours``. A workspace has one such start at a time: nothing is started while another process holds its lock.

    Args:
        workspace: folder with campaign, model and verdict.
        hours: least time between two starts.
        start: starts the retrain and returns the name of its run; a start that raises is not counted.
        now: UTC; by default the present.
        blocking: ``start`` runs the whole retrain. It counts from its beginning, also where it raises or is killed.

    Raises:
        InvalidInput: ``hours`` is negative, or the verdict or the record of the last start is damaged.
        Unavailable: the workspace cannot be locked.
        ShadowpriceError: any error of ``start``.
    """
    if hours < 0:
        raise InvalidInput("must not be negative", field="hours")
    at, record = now or datetime.now(UTC), workspace / STARTED
    model = str(read_meta((workspace / MODEL).resolve())["model_version"])
    if not alarms_on(workspace, read_campaign(workspace).name, model):
        return f"no alarm on model {model}"
    with _alone(workspace / LOCK) as alone:
        if not alone:
            return f"the watch alarms on model {model}; another process runs or starts a retrain"
        before = _last_start(record)
        if before is not None and at - before < timedelta(hours=hours):
            return f"the watch alarms on model {model}; a retrain was started at {before:%Y-%m-%d %H:%M} UTC"
        started = {"at": at.isoformat(), "model_version": model}
        if blocking:
            write_whole(record, json.dumps(started))
        run = start()
        write_whole(record, json.dumps(started | {"run": run}))
    return f"the watch alarms on model {model}: started {run}"


def _last_start(record: Path) -> datetime | None:
    try:
        return datetime.fromisoformat(read_json(record)["at"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"is not a record of a start ({error}); remove it", field=str(record)) from error


@contextmanager
def _alone(file: Path) -> Iterator[bool]:
    """Lock a file, and yield whether this process has the lock; the end of a process frees it."""
    try:
        descriptor = lock_file(file)
    except OSError as error:
        raise Unavailable(f"{file} cannot be locked: {error}") from error
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
