"""Run a pipeline in a process of its own, with its output in a log and its progress on the terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from components import IMAGE
from pipelines.local.finished import KEPT, Took, finished
from pipelines.local.step_progress import PROGRESS, StepProgress
from pipelines.parameters import arguments_of
from shadowprice import errors
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import Child

Pipeline = Literal["train", "retrain", "embed", "resolve", "decide", "delivery", "vouchers"]
PIPELINES: tuple[str, ...] = get_args(Pipeline)
PATHS = ("workspace", "data")
"""Arguments of pipelines that are folders."""

TASK = re.compile(r"Executing task .*'([\w-]+)'")
DONE = re.compile(r"Task .*'([\w-]+)'.* finished with status .*?(SUCCESS|FAILURE|SKIPPED)")
REASON = re.compile(r"shadowprice\.errors\.(\w+): (.*)")
CRASH = re.compile(r"^\s*(\w[\w.]*(?:Error|Exception): .+)")
"""Last line of the trace of an error that is not deliberate."""


class PipelineFailed(ShadowpriceError):
    """A step of a pipeline failed; the message names the step, the reason and the log.

    step    name of the step
    cause   error that the step raised; None where it raised none on purpose
    """

    def __init__(self, pipeline: str, step: str, reason: str, crash: str, log: Path) -> None:
        kind, _, text = reason.partition(": ")
        self.step = step
        self.cause = getattr(errors, kind, ShadowpriceError)(text) if reason else None
        super().__init__(f"pipeline {pipeline!r} failed in step {step!r}: {reason or crash or 'see the log'} ({log})")


def run(
    pipeline: str,
    root: Path,
    arguments: Mapping[str, Any],
    *,
    image: str = "",
    usual: Mapping[str, float] | None = None,
    resume: bool = False,
) -> dict[str, Took]:
    """Run a pipeline in a process of its own and return the cost of each step.

    Args:
        pipeline: name of a module of :mod:`pipelines` that has ``<name>_pipeline``.
        root: where artifacts go; the log is ``<root>/<pipeline>.log``.
        arguments: of the pipeline, and options of its jobs by name.
        image: run every step in a container of it (:mod:`pipelines.local.containers`); empty runs them as processes.
        usual: step → seconds it took in an earlier run; an estimate for a step that reports no progress.
        resume: go on with the newest run of the pipeline in ``root``, whose finished steps are not run again; steps in
            containers are.

    Each step that takes longer than :data:`~shadowprice.progress.EVERY` seconds shows its progress.

    Raises:
        InvalidInput: neither the pipeline nor one of its jobs has such a parameter, or it is of a wrong type.
        PipelineFailed: a step failed.
    """
    root.mkdir(parents=True, exist_ok=True)
    log, artifacts = root / f"{pipeline}.log", _artifacts(pipeline, root, resume)
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "pipelines.local",
        pipeline,
        str(root),
        artifacts,
        json.dumps(arguments_of(pipeline, arguments)),
        *(["--containers"] if image else []),
    ]
    # Lines of a step come when they are written, not when a buffer is full.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | ({IMAGE: image} if image else {})
    took: dict[str, Took] = {}
    step, status = "start", "stopped"
    shown: StepProgress | None = None
    reason: list[str] = []
    crash = ""
    telling = False
    with (
        log.open("a" if resume else "w") as sink,
        Child(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            env=environment,
            process_group=0,
        ) as child,
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                sink.write(line)
                telling &= bool(line.strip()) and not (TASK.search(line) or DONE.search(line))
                if match := TASK.search(line):
                    step, status, crash = match[1], "", ""
                    shown = StepProgress(f"  {pipeline}: {step}", (usual or {}).get(step))
                elif match := DONE.search(line):
                    if shown is not None:
                        seconds = shown.end(status or match[2].lower())
                        took[step] = finished(root / artifacts / step) or Took(seconds)
                        shown = None
                elif line.strip() == KEPT:
                    status = KEPT
                elif match := REASON.search(line):
                    reason, telling = [f"{match[1]}: {match[2]}"], True
                elif telling and line.strip():
                    # A message may have several lines, such as one for each fault of a table.
                    reason.append(line.rstrip())
                elif shown is not None and PROGRESS.search(line):
                    shown.told(line.strip())
                elif (match := CRASH.search(line)) and (shown is not None or not crash):
                    crash = match[1]
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            raise
        finally:
            if shown is not None:
                shown.end()
    if child.returncode:
        raise PipelineFailed(pipeline, step, "\n".join(reason), crash, log)
    return took


def _artifacts(pipeline: str, root: Path, resume: bool) -> str:
    """Name of the folder in ``root`` for the artifacts: that of the newest run, or a new one with the present time."""
    name = f"shadowprice-{pipeline}"
    before = sorted(path.name for path in root.glob(f"{name}-*")) if resume else []
    return before[-1] if before else f"{name}-{datetime.now(UTC):%Y-%m-%d-%H-%M-%S-%f}"


def compile_pipelines(folder: Path, names: Sequence[str] = PIPELINES) -> None:
    """Write ``<name>.yaml`` of the named pipelines, as they are uploaded to a Kubeflow Pipelines backend."""
    from kfp import compiler

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        compiler.Compiler().compile(pipeline_of(name), str(folder / f"{name}.yaml"))


def pipeline_of(name: str) -> Any:
    """Return a pipeline as Kubeflow's SDK has it."""
    return getattr(import_module(f"pipelines.{name}"), f"{name}_pipeline")
