"""Running a pipeline on this machine with ``kfp.local``, its chatter in a log and its progress on the terminal."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from components import IMAGE
from pipelines.step_progress import PROGRESS, StepProgress
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import Child, end_with_parent

PIPELINES = ("train", "retrain", "embed", "resolve", "delivery", "vouchers", "reproduce")
PATHS = ("workspace", "data")
"""Arguments of pipelines that are folders."""

TASK = re.compile(r"Executing task .*'([\w-]+)'")
DONE = re.compile(r"Task .*'([\w-]+)'.* finished with status .*?(SUCCESS|FAILURE|SKIPPED)")
REASON = re.compile(r"shadowprice\.errors\.(\w+): (.*)")


class PipelineFailed(ShadowpriceError):
    """A step of a pipeline failed; the message names the step, the reason and the log."""


def run(
    pipeline: str,
    root: Path,
    arguments: Mapping[str, Any],
    *,
    image: str = "",
    usual: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Run a pipeline in a process of its own and return the seconds of each step.

    Args:
        pipeline: name of a module of this package that has ``<name>_pipeline``.
        root: where artifacts go; the log is ``<root>/<pipeline>.log``.
        arguments: of the pipeline.
        image: run every step in a container of it (:mod:`pipelines.containers`); empty runs them as processes.
        usual: step → seconds it took in an earlier run; what a step that reports no progress is compared with.

    Each step that takes longer than :data:`~shadowprice.progress.EVERY` seconds shows its progress.

    Raises:
        PipelineFailed: a step failed.
    """
    root.mkdir(parents=True, exist_ok=True)
    log = root / f"{pipeline}.log"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "pipelines.local",
        pipeline,
        str(root),
        json.dumps(dict(arguments)),
        *(["--containers"] if image else []),
    ]
    # Lines of a step come when they are written, not when a buffer is full.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | ({IMAGE: image} if image else {})
    seconds: dict[str, float] = {}
    step = "start"
    shown: StepProgress | None = None
    reason: list[str] = []
    telling = False
    with (
        log.open("w") as sink,
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
                telling &= bool(line.strip())
                if found := TASK.search(line):
                    step = found[1]
                    shown = StepProgress(f"  {pipeline}: {step}", (usual or {}).get(step))
                elif found := DONE.search(line):
                    if shown is not None:
                        seconds[found[1]] = shown.end(found[2].lower())
                elif found := REASON.search(line):
                    reason, telling = [f"{found[1]}: {found[2]}"], True
                elif telling and line.strip():
                    # A message may have several lines, such as one for each fault of a table.
                    reason.append(line.rstrip())
                elif shown is not None and PROGRESS.search(line):
                    shown.told(line.strip())
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            raise
        finally:
            if shown is not None:
                shown.end()
    if child.returncode:
        told = "\n".join(reason)
        raise PipelineFailed(f"pipeline {pipeline!r} failed in step {step!r}: {told or 'see the log'} ({log})")
    return seconds


def compile_pipelines(folder: Path, names: Sequence[str] = PIPELINES) -> None:
    """Write ``<name>.yaml`` of the named pipelines, as they are uploaded to a Kubeflow Pipelines backend."""
    from kfp import compiler

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        pipeline = getattr(import_module(f"pipelines.{name}"), f"{name}_pipeline")
        compiler.Compiler().compile(pipeline, str(folder / f"{name}.yaml"))


def main() -> None:
    """Entry point of the child process: pipeline name, root and JSON arguments."""
    end_with_parent(group=True)
    parser = argparse.ArgumentParser(description="Run a pipeline with kfp.local.")
    parser.add_argument("pipeline", choices=PIPELINES)
    parser.add_argument("root")
    parser.add_argument("arguments", type=json.loads)
    parser.add_argument("--containers", action="store_true", help="run every step in a container of the image")
    given = parser.parse_args()

    from kfp import local

    from pipelines.placement import LOCAL

    # Before the pipeline is imported, which builds it.
    os.environ[LOCAL] = "1"

    root = Path(given.root).resolve()
    if given.containers:
        from pipelines.containers import in_containers

        # A container outlives who waits for it, unless that one removes it as it goes.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        paths = {name: str(Path(given.arguments[name]).resolve()) for name in PATHS if given.arguments.get(name)}
        given.arguments |= paths
        runner: Any = in_containers(root, given.arguments)
    else:
        from pipelines.processes import in_processes

        runner = in_processes()
    local.init(runner=runner, pipeline_root=str(root), raise_on_error=True)
    getattr(import_module(f"pipelines.{given.pipeline}"), f"{given.pipeline}_pipeline")(**given.arguments)


if __name__ == "__main__":
    main()
