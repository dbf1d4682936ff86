"""Running a step here, or as a Ray job that exchanges files with it over the workspace."""

from __future__ import annotations

import copy
import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.ray_job.api import KubernetesRayJobs, RayJobs
from components.ray_job.watch import PATIENCE, Patience, run_to_end
from components.steps import STEPS
from shadowprice.errors import InvalidInput, Unavailable

EXCHANGE = "ray-jobs"
# The operator names Services after the job, which leaves it this many characters.
LONGEST_NAME = 47


def run_step(
    step: str,
    arguments: Mapping[str, Any],
    *,
    reads: Sequence[str],
    writes: Sequence[str],
    workspace: str,
    ray_job: str,
    jobs: RayJobs | None = None,
    patience: Patience = PATIENCE,
) -> None:
    """Run a step in this process, or as a Ray job when one is configured.

    The job's pods cannot see this pod's artifacts, so what the step reads is copied to ``<workspace>/ray-jobs/<name>``
    and what it writes is taken from there; the folder goes when the step has succeeded and stays when it has not, for
    its checkpoint. The name is a digest of what is asked for, so that a second try joins the first.

    Args:
        step: of :data:`components.steps.STEPS`.
        arguments: of the step; JSON values.
        reads: names of the arguments that are paths of files or folders it reads.
        writes: names of the arguments that are paths it writes.
        workspace: folder that this pod and the job's pods mount at the same path.
        ray_job: ConfigMap with the RayJob to fill in, in this namespace; empty runs here.
        jobs: of the namespace; by default those of the cluster this process runs in.
        patience: how long to wait for what.

    Raises:
        InvalidInput: no such template, or no workspace.
        RayJobFailed: the job ended without success.
        Unavailable: no cluster, no operator, or a job that said it succeeded and wrote nothing.
    """
    if not ray_job:
        STEPS[step](**arguments)
        return
    if not workspace:
        raise InvalidInput("a Ray job needs the folder that its pods mount too", field="workspace")
    jobs = jobs or KubernetesRayJobs()
    template = jobs.template(ray_job)
    prefix = template["metadata"].get("name", "shadowprice")
    suffix = f"-{step}-{_digest(step, arguments, reads, writes)}"
    name = prefix[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix
    exchange = Path(workspace).resolve() / EXCHANGE / name
    there = dict(arguments)
    for argument in (*reads, *writes):
        there[argument] = str(exchange / argument)
    for argument in reads:
        _copy(Path(arguments[argument]), exchange / argument)
    run_to_end(jobs, filled(template, name, step, there), patience)
    for argument in writes:
        if not (exchange / argument).exists():
            jobs.delete(name)
            raise Unavailable(f"RayJob {name} succeeded and left no {argument} in {exchange}; is it the same volume?")
        _copy(exchange / argument, Path(arguments[argument]))
    jobs.delete(name)
    shutil.rmtree(exchange)


def filled(template: Mapping[str, Any], name: str, step: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The RayJob of a template with its name and what it is to run."""
    manifest = copy.deepcopy(dict(template))
    manifest["metadata"]["name"] = name
    manifest["spec"]["entrypoint"] = shlex.join(["python", "-m", "components.steps", step, json.dumps(dict(arguments))])
    return manifest


def _digest(step: str, arguments: Mapping[str, Any], reads: Sequence[str], writes: Sequence[str]) -> str:
    """Of everything the result depends on: values, and contents of what is read; paths of artifacts change."""
    total = hashlib.sha256(step.encode())
    values = {name: value for name, value in arguments.items() if name not in {*reads, *writes}}
    total.update(json.dumps(values, sort_keys=True).encode())
    for argument in sorted(reads):
        root = Path(arguments[argument])
        for path in [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file()):
            total.update(f"{argument}/{path.relative_to(root)}".encode())
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:10]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
