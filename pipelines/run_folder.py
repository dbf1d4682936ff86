"""Folder of a run: its arguments, its finished steps, and the lock of the process at work in it."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import shadowprice
from pipelines.local import Took
from pipelines.local.finished import KEPT, finished, mark
from pipelines.local.memory import PeakMemory
from shadowprice.datasets.inputs import input_files
from shadowprice.errors import Conflict, NotFound
from shadowprice.files import lock_file, sha256, write_whole
from shadowprice.lifeline import keep_open

RECORD, LOCK, STEPS = "run.json", ".lock", "steps"
WAIT_SECONDS = 15.0
"""Time that the processes of a killed run have to end."""


@dataclass(frozen=True)
class RunFolder:
    """A run that this process is at work in: it has the lock on the folder.

    folder     absolute path
    arguments  of the run, by name
    resumed    whether an earlier process began it
    took       step → cost, of the steps that are finished so far
    """

    folder: Path
    arguments: Mapping[str, Any]
    resumed: bool = False
    took: dict[str, Took] = field(default_factory=dict)

    @classmethod
    def begin(cls, runs: Path, arguments: Mapping[str, Any]) -> RunFolder:
        """Make the folder of a new run.

        Raises:
            NotFound, InvalidInput: a file of the data set is missing, or its mapping is wrong; nothing was written.
        """
        content = {"arguments": dict(arguments), "files": _files(arguments), "version": shadowprice.__version__}
        run = cls(new_folder(runs, f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{arguments['dataset']}"), dict(arguments))
        try:
            _lock(run.folder)
            write_whole(run.folder / RECORD, json.dumps(content | {"ended": False}, indent=1))
        except BaseException:
            run.remove()
            raise
        return run

    @classmethod
    def resume(cls, folder: Path, asked: Mapping[str, Any]) -> RunFolder:
        """Go on with an interrupted run.

        Args:
            folder: of the run.
            asked: its arguments as they are given now.

        Raises:
            Conflict: the run is at work; or arguments, files or version are not those of its start, and are named.
        """
        _lock(folder)
        record = recorded(folder)
        before = {**record["arguments"], **record["files"], "version of shadowprice": record["version"]}
        now = {**asked, **_files(asked), "version of shadowprice": shadowprice.__version__}
        changed = [
            f"{name} has changed"
            if name in record["files"]
            else f"{name} was {before.get(name)!r}, now {now.get(name)!r}"
            for name in dict.fromkeys([*before, *now])
            if before.get(name) != now.get(name)
        ]
        if changed:
            raise Conflict(f"{folder} cannot go on: {'; '.join(changed)}; begin a new run without --resume")
        return cls(folder, record["arguments"], resumed=True)

    @property
    def seconds(self) -> dict[str, float]:
        """Step → seconds, of the steps that are finished."""
        return {name: step_took.seconds for name, step_took in self.took.items()}

    @property
    def peak_memory_mb(self) -> dict[str, float]:
        """Step → most memory of its processes, in 10⁶ bytes, where it was measured."""
        peaks = {name: step_took.peak_memory_mb for name, step_took in self.took.items()}
        return {name: peak for name, peak in peaks.items() if peak is not None}

    def step(self, name: str, inputs: Mapping[str, Any], work: Callable[[Path], None]) -> Path:
        """Do a step in this process, unless it is finished, and return the folder of its outputs.

        Args:
            name: of the step, printed at its begin and, with its seconds, at its end.
            inputs: JSON of what it depends on besides the steps before.
            work: writes its outputs into the folder that it is given, which is empty.
        """
        folder = self.folder / STEPS / name.replace(" ", "-")
        kept = finished(folder, inputs)
        if kept is not None:
            print(f"  {name} {KEPT}", flush=True)
            self.took[name] = kept
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with self.timed(name):
            work(folder)
        mark(folder, inputs, self.took[name])
        return folder

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure the work inside the context as a step of this name; a resumed run does it again."""
        print(f"  {name} …", flush=True)
        started = time.perf_counter()
        with PeakMemory() as peak:
            yield
        self.took[name] = Took(time.perf_counter() - started, peak.megabytes)
        print(f"  {name} in {self.took[name].seconds:.1f} s", flush=True)

    def end(self) -> None:
        """Record that the run has ended."""
        write_whole(self.folder / RECORD, json.dumps(recorded(self.folder) | {"ended": True}, indent=1))

    def remove(self) -> None:
        """Remove the folder of a run that never began."""
        shutil.rmtree(self.folder, ignore_errors=True)


def interrupted(runs: Path) -> Path:
    """Return the folder of the newest run that did not come to its end, or raise :class:`NotFound`."""
    for path in sorted(runs.glob(f"*/{RECORD}"), reverse=True):
        # Not through the link to the newest finished run.
        if not path.parent.is_symlink() and not recorded(path.parent)["ended"]:
            return path.parent.resolve()
    raise NotFound(f"{runs} has no run that was interrupted; begin one without --resume")


def recorded(folder: Path) -> dict[str, Any]:
    """Return the record of a run."""
    content: dict[str, Any] = json.loads((folder / RECORD).read_bytes())
    return content


def _files(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each file that the data set of a run reads."""
    paths = input_files(arguments["dataset"], arguments["data"], arguments["options"])
    return {str(path): sha256(path) for path in paths}


def _lock(folder: Path) -> None:
    """Lock a run for this process and for all that it starts; wait for those of an earlier one to end."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (lock := lock_file(folder / LOCK)) is None:
        if time.monotonic() > deadline:
            raise Conflict(f"{folder} is at work in another process; wait for its end, or stop it")
        time.sleep(0.1)
    keep_open(lock)


def new_folder(runs: Path, name: str) -> Path:
    """Make a folder of that name in ``runs``, or of the name with a number where another run was first."""
    runs.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = (runs / (name if number == 1 else f"{name}-{number}")).resolve()
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        return folder


def point_to(link: Path, name: str) -> None:
    """Point the symbolic link ``link`` to ``name`` beside it, atomically, also where several runs do so at once."""
    draft = link.with_name(f".{link.name}-{uuid.uuid4().hex}")
    draft.symlink_to(name)
    os.replace(draft, link)
