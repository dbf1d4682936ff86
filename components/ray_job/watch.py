"""A Ray job from its creation to its end."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from components.ray_job.api import RayJobs
from shadowprice.errors import ShadowpriceError, Unavailable

Answer = TypeVar("Answer")
SUCCEEDED = "SUCCEEDED"
OVER = ("Complete", "Failed", "ValidationFailed")


class RayJobFailed(ShadowpriceError):
    """A Ray job ended without success; the message has the operator's reason."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds to wait.

    poll_seconds       between looks at the job
    unseen_seconds     for the operator's first status of a job
    silence_seconds    for an API server that does not answer; the job goes on meanwhile
    removal_seconds    for a job of the same name that is being deleted
    """

    poll_seconds: float = 5.0
    unseen_seconds: float = 120.0
    silence_seconds: float = 300.0
    removal_seconds: float = 120.0


PATIENCE = Patience()


def run_to_end(
    jobs: RayJobs, manifest: dict[str, Any], patience: Patience = PATIENCE, say: Callable[[str], None] = print
) -> None:
    """Create a job, or join the one of that name, and return when it has succeeded.

    The name says what the job does, so creating twice is one job: one that runs is joined, one that succeeded is
    taken, one that failed is removed and made again. An interrupt deletes the job and with it its cluster; the deletion
    of the pods that own it does so after a kill. A queue may suspend the job for any time.

    Args:
        jobs: of the namespace.
        manifest: the RayJob.
        patience: how long to wait for what.
        say: receives each change of the job's status.

    Raises:
        RayJobFailed: the job failed, ran out of time, was refused by the operator or was deleted by another.
        Unavailable: no operator takes the job, or the API server is away for too long.
    """
    name = manifest["metadata"]["name"]
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        # Python drops what a handler raises while an object is being finalized, so the loop asks for it too.
        stopped.set()
        raise KeyboardInterrupt

    with _on_termination(stop):
        try:
            _start(jobs, manifest, patience, say)
            _follow(jobs, name, patience, say, stopped)
        except (KeyboardInterrupt, SystemExit, _NobodyCame):
            # A stop comes twice, to the group and from the launcher.
            with _on_termination(signal.SIG_IGN):
                say(f"RayJob {name}: deleting it")
                answered(lambda: jobs.delete(name), patience, say)
            raise


class _NobodyCame(Unavailable):
    """Error for an operator that never set a status on the job."""


def answered(call: Callable[[], Answer], patience: Patience, say: Callable[[str], None]) -> Answer:
    """Return what a call to the API server returns, also where the server is away for a while.

    Raises:
        Unavailable: it is away for too long.
    """
    since = time.monotonic()
    while True:
        try:
            return call()
        except Unavailable as error:
            if time.monotonic() - since > patience.silence_seconds:
                raise
            say(f"waiting for the API server: {error}")
            time.sleep(patience.poll_seconds)


def _start(jobs: RayJobs, manifest: dict[str, Any], patience: Patience, say: Callable[[str], None]) -> None:
    name = manifest["metadata"]["name"]
    until = time.monotonic() + patience.removal_seconds
    while not answered(lambda: jobs.create(manifest), patience, say):
        existing = answered(lambda: jobs.get(name), patience, say)
        if existing is None:
            continue
        leaving = "deletionTimestamp" in existing["metadata"]
        status = existing.get("status", {})
        if not leaving and not _failed(status):
            say(f"RayJob {name} is there already; following it")
            owners = existing["metadata"].get("ownerReferences", [])
            if missing := [owner for owner in manifest["metadata"].get("ownerReferences", []) if owner not in owners]:
                answered(partial(jobs.own, name, [*owners, *missing]), patience, say)
            return
        if not leaving:
            say(f"RayJob {name} failed before; making it again")
            answered(lambda: jobs.delete(name), patience, say)
        if time.monotonic() > until:
            raise Unavailable(f"RayJob {name} of an earlier try is still being deleted; look at its finalizers")
        time.sleep(min(patience.poll_seconds, 1.0))
    else:
        say(f"RayJob {name} is there")


def _follow(jobs: RayJobs, name: str, patience: Patience, say: Callable[[str], None], stopped: threading.Event) -> None:
    seen, shown = False, ""
    started = time.monotonic()
    while True:
        if stopped.is_set():
            raise KeyboardInterrupt
        existing = answered(lambda: jobs.get(name), patience, say)
        if existing is None or "deletionTimestamp" in existing["metadata"]:
            raise RayJobFailed(f"RayJob {name} was deleted by another before it ended")
        status = existing.get("status", {})
        if status.get("jobDeploymentStatus"):
            seen = True
        elif existing["spec"].get("suspend"):
            started = time.monotonic()
        elif not seen and time.monotonic() - started > patience.unseen_seconds:
            raise _NobodyCame(
                f"no operator took RayJob {name} within {patience.unseen_seconds:g} s; is KubeRay running?"
            )
        if (text := _text(status)) != shown:
            shown = text
            say(f"RayJob {name}: {text}")
        if status.get("jobDeploymentStatus") in OVER:
            if _failed(status):
                raise RayJobFailed(f"RayJob {name} failed: {text}")
            return
        time.sleep(patience.poll_seconds)


def _failed(status: dict[str, Any]) -> bool:
    return status.get("jobDeploymentStatus") in OVER and status.get("jobStatus") != SUCCEEDED


def _text(status: dict[str, Any]) -> str:
    parts = [status.get(key) for key in ("jobDeploymentStatus", "jobStatus", "reason", "message", "dashboardURL")]
    return ", ".join(str(part) for part in parts if part) or "waiting for the operator"


@contextmanager
def _on_termination(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Handle SIGTERM, by which Kubernetes stops a pod, and Ctrl-C with ``handler`` inside the context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
