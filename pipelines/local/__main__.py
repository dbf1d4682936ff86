"""Run a pipeline in this process: the child that :func:`pipelines.local.run` starts."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pipelines.local.run import PATHS, PIPELINES
from shadowprice.lifeline import end_with_parent


def main() -> None:
    """Command line: pipeline, root, folder of the artifacts in it, and JSON arguments."""
    end_with_parent(group=True)
    parser = argparse.ArgumentParser(description="Run a pipeline with kfp.local.")
    parser.add_argument("pipeline", choices=PIPELINES)
    parser.add_argument("root")
    parser.add_argument("artifacts")
    parser.add_argument("arguments", type=json.loads)
    parser.add_argument("--containers", action="store_true", help="run every step in a container of the image")
    given = parser.parse_args()

    from kfp import local
    from kfp.local import executor_input_utils

    from pipelines.placement import LOCAL

    # Before the pipeline is imported, which builds it.
    os.environ[LOCAL] = "1"
    # Kubeflow's own name has the time of now: a run that goes on would not find what it has done.
    executor_input_utils.get_local_pipeline_resource_name = lambda _: given.artifacts

    root = Path(given.root).resolve()
    if given.containers:
        from pipelines.local.containers import in_containers

        # A container outlives who waits for it, unless that one removes it as it goes.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        paths = {name: str(Path(given.arguments[name]).resolve()) for name in PATHS if given.arguments.get(name)}
        given.arguments |= paths
        runner: Any = in_containers(root, given.arguments)
    else:
        from pipelines.local.processes import in_processes

        runner = in_processes()
    local.init(runner=runner, pipeline_root=str(root), raise_on_error=True)
    getattr(import_module(f"pipelines.{given.pipeline}"), f"{given.pipeline}_pipeline")(**given.arguments)


if __name__ == "__main__":
    main()
