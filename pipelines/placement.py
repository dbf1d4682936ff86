"""Where a step of a pipeline runs in a cluster: what it may use, what it mounts, when it is given up.

A run on one machine ignores all of it. Names of the cluster come from the environment when a pipeline is compiled,
as its image does:

SHADOWPRICE_WORKSPACE_CLAIM   persistent volume claim of the workspace, mounted at /workspace
SHADOWPRICE_REDIS_SECRET      secret whose key ``connection`` is Feast's connection string
SHADOWPRICE_LOCAL             set by a run on one machine: a step that failed is not tried again, as the same machine
                              would fail the same way
"""

from __future__ import annotations

import os

from kfp import kubernetes
from kfp.dsl import PipelineTask

from feature_repo.names import REDIS_VARIABLE

CLAIM = "SHADOWPRICE_WORKSPACE_CLAIM"
SECRET = "SHADOWPRICE_REDIS_SECRET"
LOCAL = "SHADOWPRICE_LOCAL"
MOUNT = "/workspace"
RETRIES = 2


def placed(task: PipelineTask, *, cpu: str, memory: str, minutes: int, retries: int = RETRIES) -> PipelineTask:
    """The task with its requests, its deadline and its mounts.

    Args:
        task: of a pipeline that is being built.
        cpu, memory: requests in Kubernetes' units; the memory is also the limit.
        minutes: after so many it is given up.
        retries: after a failure; every step may run twice without harm.
    """
    task.set_cpu_request(cpu).set_memory_request(memory).set_memory_limit(memory)
    if not os.environ.get(LOCAL):
        task.set_retry(retries, backoff_duration="30s", backoff_factor=2.0)
    kubernetes.set_timeout(task, 60 * minutes)
    if claim := os.environ.get(CLAIM):
        kubernetes.mount_pvc(task, pvc_name=claim, mount_path=MOUNT)
    if secret := os.environ.get(SECRET):
        kubernetes.use_secret_as_env(task, secret_name=secret, secret_key_to_env={"connection": REDIS_VARIABLE})
    return task
