"""An installed release on a cluster with operators and nodes: KServe, KubeRay, Kubeflow Pipelines and a re-solve.

docs/how-to/check-on-a-cluster.md says what the release must have. Whatever it does without is skipped by name.
"""

import json
import os

import pytest
from commands import Cluster
from operators import Missing, cluster_of, named, pipeline, ray_job, reconciled, resolved

pytestmark = pytest.mark.timeout(2400)


def test_kserve_makes_a_predictor_that_answers(release: Cluster) -> None:
    reconciled(release)


def test_kuberay_runs_a_job_of_the_template_of_steps(release: Cluster) -> None:
    try:
        ray_job(release)
    except Missing as reason:
        pytest.skip(str(reason))


def test_kubeflow_pipelines_run_the_pipeline_of_the_resolve(release: Cluster) -> None:
    if not (os.environ.get("KF_PIPELINES_ENDPOINT") and os.environ.get("SHADOWPRICE_PIPELINE_IMAGE")):
        pytest.skip("set KF_PIPELINES_ENDPOINT and SHADOWPRICE_PIPELINE_IMAGE")
    from pipelines.backend import run_there, start_scheduled
    from pipelines.client import connected
    from pipelines.cluster import take
    from pipelines.connection import Connection

    to = Connection(namespace=release.space, token_file=os.environ.get("TOKEN_FILE", ""))

    def start() -> str:
        try:
            names = cluster_of(named(release, "cronjobs.batch", "resolve"))
        except Missing:
            record = named(release, "configmaps", "resolve")["data"]
            return start_scheduled(
                to, json.loads(record["names"])[0], experiment=json.loads(record["kfp"])["experiment"]
            )
        parameters = {"workspace": "/workspace", "ledger_url": names.pop("ledger_url")}
        take(names)
        return run_there(to, "resolve", f"{release.name}-check", experiment="shadowprice-check", parameters=parameters)

    def state(run: str) -> str:
        with connected(to) as (client, _):
            return str(client.get_run(run).state or "")

    try:
        pipeline(start, state)
    except Missing as reason:
        pytest.skip(str(reason))


def test_a_resolve_publishes_a_price(release: Cluster) -> None:
    try:
        resolved(release)
    except Missing as reason:
        pytest.skip(f"{reason}: where resolve.by is kfp, the pipeline is the re-solve")
