"""Run a job here, or as a Ray job that exchanges files with this process over the workspace."""

import copy
import dataclasses
import hashlib
import json
import math
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.ray_job.api import KubernetesRayJobs, RayJobs, Step
from components.ray_job.watch import PATIENCE, Patience, answered, run_to_end
from operations.common.job import Job, run_here
from shadowprice.errors import InvalidInput, Unavailable

EXCHANGE = "ray-jobs"
# The operator names Services after the job, which leaves it this many characters.
LONGEST_NAME = 47


def run_job(job: Job, *, ray_job: str, jobs: RayJobs | None = None, patience: Patience = PATIENCE) -> Any:
    """Run a job in this process, or as a Ray job when one is configured.

    The pods of a Ray job cannot see this pod's artifacts, so the inputs that the job declares are copied to
    ``<workspace>/ray-jobs/<name>`` and its outputs are taken from there. The folder is removed when the job has
    succeeded and stays when it has not, for its checkpoint. The name is a digest of the job's fields and inputs, so
    that a second try joins the first.

    Args:
        job: with a workspace that this pod and the pods of the Ray job mount at the same path.
        ray_job: ConfigMap with the RayJob to fill in, in this namespace; empty runs here.
        jobs: of the namespace; by default those of the cluster this process runs in.
        patience: how long to wait for what.

    Returns:
        What the job returns in this process; None from a Ray job.

    Raises:
        InvalidInput: no such template, no permission for it, or no workspace.
        RayJobFailed: the job ended without success.
        Unavailable: no cluster, no operator, or a job that reported success and wrote nothing.
    """
    if not ray_job:
        return run_here(job)
    workspace: Path | None = getattr(job, "workspace", None)
    if workspace is None:
        raise InvalidInput("a Ray job needs the folder that its pods mount too", field="workspace")
    jobs = jobs or KubernetesRayJobs()
    api = jobs
    template = answered(lambda: api.template(ray_job), patience, print)
    prefix = template["metadata"].get("name", "shadowprice")
    suffix = f"-{job.name}-{_digest(job)}"
    name = prefix[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix
    exchange = workspace.resolve() / EXCHANGE / name
    there = dataclasses.replace(job, **{field: exchange / field for field in (*job.inputs, *job.outputs)})
    for field, path in job.inputs.items():
        _copy(path, exchange / field)
    run_to_end(jobs, filled(template, name, there, answered(api.step, patience, print)), patience)
    for field, path in job.outputs.items():
        if not (exchange / field).exists():
            jobs.delete(name)
            raise Unavailable(f"RayJob {name} succeeded and left no {field} in {exchange}; is it the same volume?")
        _copy(exchange / field, path)
    jobs.delete(name)
    shutil.rmtree(exchange)
    return None


def filled(template: Mapping[str, Any], name: str, job: Job, step: Step | None = None) -> dict[str, Any]:
    """The RayJob of a template with its name and the job that it runs; it ends with the step, at the latest."""
    manifest = copy.deepcopy(dict(template))
    manifest["metadata"]["name"] = name
    manifest["spec"]["entrypoint"] = shlex.join(["python", "-m", "operations", job.name, job.to_json()])
    if step is not None:
        manifest["metadata"]["ownerReferences"] = [step.reference]
        if step.seconds_left is not None:
            limit = manifest["spec"].get("activeDeadlineSeconds", math.inf)
            manifest["spec"]["activeDeadlineSeconds"] = max(1, int(min(limit, step.seconds_left)))
    return manifest


def _digest(job: Job) -> str:
    """Digest of all that the result depends on: values, and contents of the inputs. Paths of artifacts change."""
    total = hashlib.sha256(job.name.encode())
    values = {name: value for name, value in job.values().items() if name not in {**job.inputs, **job.outputs}}
    total.update(json.dumps(values, sort_keys=True).encode())
    for field, root in sorted(job.inputs.items()):
        for path in [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file()):
            total.update(f"{field}/{path.relative_to(root)}".encode())
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:10]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
