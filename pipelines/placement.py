"""Placement of a pipeline's step in a cluster: resources, mounts and time limit.

A run on one machine ignores all of it; it sets ``SHADOWPRICE_LOCAL``, and a step that failed is not tried again, as the
same machine would fail the same way.
"""

import os

from kfp import kubernetes
from kfp.dsl import PipelineTask
from kfp.dsl.structures import ResourceSpec

from feature_repo.names import REDIS_VARIABLE
from operations.common.ledger_tokens import TOKEN_TEXT
from pipelines.cluster import Cluster

LOCAL = "SHADOWPRICE_LOCAL"
MOUNT = "/workspace"
PROMETHEUS_MOUNT = "/etc/shadowprice/prometheus"
RETRIES = 2
FIRST_WAIT = 30
"""Seconds before the second try; each further wait is twice the one before."""
PENDING = 3600
"""Seconds that each try may wait for a node."""
USER = 10001
TITLES = {
    "prepare": "Check the tables",
    "harvest": "Add what was served",
    "featurize": "Write the features",
    "train": "Train the model",
    "worth": "Estimate the worth",
    "evaluate": "Judge the model",
    "register": "Serve the model",
    "promote": "Put the model on trial",
    "gate-refused": "Model refused",
    "embed": "Embed the accounts",
    "decide": "Decide the list",
    "measure": "Read the spend",
    "solve": "Solve the price",
    "publish": "Publish the price",
}
"""Name of a component → the words on its step in a graph."""
LABEL = ("shadowprice/calls", "ledger")


def placed(
    task: PipelineTask,
    *,
    cpu: str,
    memory: str,
    minutes: int,
    retries: int = RETRIES,
    online_store: bool = False,
    ledger: bool = False,
    prometheus: bool = False,
) -> PipelineTask:
    """The task with its requests, its deadline, its mounts and the secrets that it needs.

    Args:
        task: of a pipeline that is being built.
        cpu, memory: requests in Kubernetes' units; the memory is also the limit.
        minutes: time limit of the step.
        retries: after a failure; every step may run twice without harm.
        online_store: whether it opens the feature store, and so gets Redis's connection string.
        ledger: whether it asks the ledger, and so gets its token and the label that the chart's policy admits.
        prometheus: whether it asks Prometheus, and so gets the files of its secret.
    """
    cluster = Cluster.from_environment()
    # The second task of a component has a number.
    task.set_display_name(TITLES[task.name.rstrip("-0123456789")])
    # Each method of the task that sets one of these reads the source of every frame of the stack, which takes 0.3 s.
    task.container_spec.resources = ResourceSpec(cpu_request=cpu, memory_request=memory, memory_limit=memory)
    if not os.environ.get(LOCAL):
        # Argo counts the maximum from the start of the first try, and ends at it a try that runs.
        longest = (retries + 1) * (60 * minutes + PENDING) + FIRST_WAIT * (2**retries - 1)
        task.set_retry(
            retries, backoff_duration=f"{FIRST_WAIT}s", backoff_factor=2.0, backoff_max_duration=f"{longest}s"
        )
    kubernetes.set_timeout(task, 60 * minutes)
    kubernetes.set_security_context(task, run_as_user=USER, run_as_group=USER, run_as_non_root=True)
    if cluster.workspace_claim:
        kubernetes.mount_pvc(
            task, pvc_name=cluster.workspace_claim, mount_path=MOUNT, sub_path=cluster.workspace_sub_path
        )
    if online_store and cluster.redis_secret:
        keys = {cluster.redis_key: REDIS_VARIABLE}
        kubernetes.use_secret_as_env(task, secret_name=cluster.redis_secret, secret_key_to_env=keys)
    if ledger:
        kubernetes.add_pod_label(task, *LABEL)
    if ledger and cluster.token_secret:
        # A secret as a volume would be mounted whole, with the tokens of other roles.
        keys = {cluster.token_key: TOKEN_TEXT}
        kubernetes.use_secret_as_env(task, secret_name=cluster.token_secret, secret_key_to_env=keys)
    if prometheus and cluster.prometheus_secret:
        kubernetes.use_secret_as_volume(task, secret_name=cluster.prometheus_secret, mount_path=PROMETHEUS_MOUNT)
    if cluster.pull_secrets:
        kubernetes.set_image_pull_secrets(task, cluster.pull_secrets.split(","))
    return task
