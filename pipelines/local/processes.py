"""Steps of a pipeline on this machine, each in a process forked from the pipeline's own.

A fork has the libraries that its parent imported; a fresh interpreter takes longer to import them than most steps run.
A step that an interrupted run has finished is not run again.
"""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kfp import local
from kfp.dsl.executor import Executor
from kfp.dsl.utils import load_module
from kfp.local import subprocess_task_handler

from operations.common.job import JOBS
from pipelines.local.finished import KEPT, Took, finished, mark, unmark
from pipelines.local.memory import PeakMemory

LEARNING = {"train", "worth", "evaluate"}
"""Steps that import torch where they run."""


def in_processes() -> local.SubprocessRunner:
    """Return the runner; Kubeflow's own function, which starts an interpreter for each step, is replaced."""
    subprocess_task_handler.run_local_subprocess = run_step
    return local.SubprocessRunner(use_venv=False)


def run_step(full_command: Sequence[str], env_vars: Mapping[str, str] | None = None) -> int:
    """Run a lightweight component in a fork, unless it is finished, and return its exit status.

    Args:
        full_command: as of :class:`kfp.local.SubprocessRunner`: a shell script that runs the executor, the source of
            the component, and the executor's arguments.
        env_vars: of the step alone.
    """
    script = next(index for index, part in enumerate(full_command) if "kfp.dsl.executor_main" in part)
    source, arguments = full_command[script + 1], full_command[script + 2 :]
    step = arguments[arguments.index("--function_to_execute") + 1]
    executor_input, compared = (json.loads(arguments[arguments.index("--executor_input") + 1]) for _ in range(2))
    # The id of a run is another one in each try, and changes nothing that the step makes.
    compared["inputs"].get("parameterValues", {}).pop("pipeline_run", None)
    inputs = {"component": source, "executor_input": compared}
    folder = Path(executor_input["outputs"]["outputFile"]).parent
    if finished(folder, inputs) is not None:
        print(KEPT, flush=True)
        return 0
    unmark(folder)
    # The parent imports what later steps use too: each fork has it then.
    for job in ({step} | executor_input["inputs"].get("parameterValues", {}).get("jobs", {}).keys()) & set(JOBS):
        import_module(f"operations.{job}")
    if step in LEARNING:
        import_module("torch")
    child = multiprocessing.get_context("fork").Process(
        target=_execute, args=(source, step, executor_input, env_vars or {})
    )
    started = time.perf_counter()
    child.start()
    with PeakMemory(child.pid) as peak:
        child.join()
    if not child.exitcode:
        mark(folder, inputs, Took(time.perf_counter() - started, peak.megabytes))
    return int(child.exitcode or 0)


def _execute(source: str, step: str, given: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    # Kubeflow indents its own lines with a stream that stands for stdout; a step writes to the real one.
    sys.stdout = sys.__stdout__
    os.dup2(1, 2)
    os.environ.update(variables)
    with TemporaryDirectory() as folder:
        module = Path(folder) / "ephemeral_component.py"
        module.write_text(source)
        function = getattr(load_module(module.stem, folder), step)
        Executor(executor_input=given, function_to_execute=function).execute()
