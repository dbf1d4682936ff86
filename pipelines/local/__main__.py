"""Run a pipeline in this process: the child that :func:`pipelines.local.run` starts."""

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.local.run import PATHS
from shadowprice.command.options import application
from shadowprice.lifeline import end_with_parent


def run_one(
    pipeline: Annotated[str, typer.Argument()],
    root: Annotated[Path, typer.Argument()],
    artifacts: Annotated[str, typer.Argument(help="folder of the artifacts in the root")],
    arguments: Annotated[str, typer.Argument(help="arguments of the pipeline as JSON")],
    containers: Annotated[
        bool, typer.Option("--containers", help="run every step in a container of the image")
    ] = False,
) -> None:
    """Run a pipeline with kfp.local."""
    from kfp import local
    from kfp.local import executor_input_utils

    from pipelines.placement import LOCAL

    # Before the pipeline is imported, which builds it.
    os.environ[LOCAL] = "1"
    # Kubeflow's own name has the time of now: a run that goes on would not find what it has done.
    executor_input_utils.get_local_pipeline_resource_name = lambda _: artifacts

    root, values = root.resolve(), json.loads(arguments)
    if containers:
        from pipelines.local.containers import in_containers

        # A container outlives who waits for it, unless that one removes it as it goes.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        values |= {name: str(Path(values[name]).resolve()) for name in PATHS if values.get(name)}
        runner: Any = in_containers(root, values)
    else:
        from pipelines.local.processes import in_processes

        runner = in_processes()
    local.init(runner=runner, pipeline_root=str(root), raise_on_error=True)
    getattr(import_module(f"pipelines.{pipeline}"), f"{pipeline}_pipeline")(**values)


if __name__ == "__main__":
    end_with_parent(group=True)
    application(run_one)()
