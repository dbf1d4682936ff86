"""The pipelines on a Kubeflow Pipelines backend: uploaded, run and scheduled.

Everything that the backend may refuse is checked before a pipeline is uploaded. An upload belongs to the namespace of
the
connection, unless ``shared`` offers it to all namespaces.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kfp import Client
from kfp_server_api import ApiException

from pipelines.client import connected
from pipelines.connection import Connection
from pipelines.local import compile_pipelines, pipeline_of
from pipelines.parameters import arguments_of
from shadowprice.errors import InvalidInput, NotFound

CRON_FIELDS = 6
PAGE = 100
"""Schedules asked for at a time; the API server gives at most 200."""


def upload(to: Connection, pipeline: str, name: str, *, shared: bool = False) -> tuple[str, str]:
    """Upload a pipeline, as a new version where there is one of that name, and return both ids.

    Args:
        to: the backend.
        pipeline: one of :data:`pipelines.local.PIPELINES`.
        name: of the pipeline in the backend.
        shared: whether it is for all namespaces of a backend with many users.

    Raises:
        InvalidInput, Unavailable: as :func:`pipelines.client.connected`.
    """
    with connected(to) as (client, namespace):
        return _upload(client, None if shared else namespace, pipeline, name)


def _upload(client: Client, namespace: str | None, pipeline: str, name: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        compile_pipelines(Path(folder), [pipeline])
        package = str(Path(folder) / f"{pipeline}.yaml")
        equals = {"predicates": [{"operation": 1, "key": "display_name", "stringValue": name}]}
        pipelines = client.list_pipelines(namespace=namespace, filter=json.dumps(equals)).pipelines
        if not pipelines:
            about = pipeline_of(pipeline).description
            known = client.upload_pipeline(package, name, about, namespace).pipeline_id
            versions = client.list_pipeline_versions(known, page_size=1, sort_by="created_at desc")
            return known, versions.pipeline_versions[0].pipeline_version_id
        known = pipelines[0].pipeline_id
        stamp = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        version = client.upload_pipeline_version(package, pipeline_version_name=stamp, pipeline_id=known)
        return known, version.pipeline_version_id


def run_there(
    to: Connection, pipeline: str, name: str, *, experiment: str, parameters: Mapping[str, Any], shared: bool = False
) -> str:
    """Upload a pipeline, run it once, and return the id of the run.

    Args:
        to, pipeline, name, shared: as for :func:`upload`.
        experiment: the run belongs to it; made when it is missing.
        parameters: of the pipeline, and options of its jobs by name.

    Raises:
        InvalidInput: a parameter is none of the pipeline or its jobs; or as :func:`pipelines.client.connected`.
        Unavailable: the backend does not answer, or refuses.
    """
    arguments = arguments_of(pipeline, parameters)
    with connected(to) as (client, namespace):
        owner = client.create_experiment(experiment, namespace=namespace).experiment_id
        pipeline_id, version_id = _upload(client, None if shared else namespace, pipeline, name)
        run = client.run_pipeline(
            experiment_id=owner, job_name=name, params=arguments, pipeline_id=pipeline_id, version_id=version_id
        )
        return str(run.run_id)


def schedule(
    to: Connection,
    pipeline: str,
    name: str,
    *,
    crons: Sequence[str],
    experiment: str,
    parameters: Mapping[str, Any],
    shared: bool = False,
) -> list[str]:
    """Run a pipeline at times of one or more clocks, in place of every earlier schedule of that name; returns the ids.

    Missed times are not made up for and runs of one clock do not overlap: each prices the remaining budget at its own
    moment. Results are never taken from a cache, because they depend on the present time.

    Args:
        to, pipeline, name, shared: as for :func:`upload`; every recurring run has the name.
        crons: six fields each, the first of them seconds; UTC. A recurring run for each.
        experiment: the runs belong to it; made when it is missing.
        parameters: of the pipeline, and options of its jobs by name.

    Raises:
        InvalidInput: a parameter is none of the pipeline or its jobs; or a cron has not six fields: the backend would
            take the first of five for seconds and run every minute. Or as :func:`pipelines.client.connected`.
        Unavailable: the backend does not answer, or refuses; the earlier schedule stays.
    """
    for cron in crons:
        if len(cron.split()) != CRON_FIELDS:
            raise InvalidInput(
                f"{cron!r} has not {CRON_FIELDS} fields: second minute hour day month weekday", field="cron"
            )
    arguments = arguments_of(pipeline, parameters)
    with connected(to) as (client, namespace):
        owner = client.create_experiment(experiment, namespace=namespace).experiment_id
        earlier = _schedules(client, owner, name)
        pipeline_id, version_id = _upload(client, None if shared else namespace, pipeline, name)
        made: list[str] = []
        try:
            for cron in crons:
                run = client.create_recurring_run(
                    experiment_id=owner,
                    job_name=name,
                    cron_expression=cron,
                    max_concurrency=1,
                    no_catchup=True,
                    enable_caching=False,
                    pipeline_id=pipeline_id,
                    version_id=version_id,
                    params=arguments,
                )
                made.append(str(run.recurring_run_id))
        except ApiException:
            _delete(client, made)
            raise
        _delete(client, earlier)
        return made


def unschedule(to: Connection, name: str, *, experiment: str) -> list[str]:
    """Delete every schedule of a name, and return their ids; none where there is none.

    Args:
        to: the backend.
        name: of the schedule, as :func:`schedule` made it.
        experiment: of the schedule.

    Raises:
        InvalidInput, Unavailable: as :func:`pipelines.client.connected`.
    """
    with connected(to) as (client, namespace):
        try:
            owner = client.get_experiment(experiment_name=experiment, namespace=namespace).experiment_id
        except ValueError as error:
            # Kubeflow's SDK has no class of its own for an experiment that does not exist.
            if "No experiment is found" not in str(error):
                raise
            return []
        schedules = _schedules(client, owner, name)
        _delete(client, schedules)
        return schedules


def start_scheduled(to: Connection, name: str, *, experiment: str) -> str:
    """Run now what a schedule runs, with its version of the pipeline and its parameters; returns the run's id.

    Args:
        to: the backend.
        name: of the schedule, as :func:`schedule` made it.
        experiment: of the schedule.

    Raises:
        NotFound: there is no such schedule.
        Unavailable: the backend does not answer, or refuses.
    """
    with connected(to) as (client, namespace):
        owner = client.create_experiment(experiment, namespace=namespace).experiment_id
        schedules = _schedules(client, owner, name)
        if not schedules:
            raise NotFound(
                f"experiment {experiment!r} has no schedule {name!r}; make it with `shadowprice pipelines schedule`"
            )
        planned = client.get_recurring_run(schedules[0])
        version = planned.pipeline_version_reference
        run = client.run_pipeline(
            experiment_id=owner,
            job_name=f"{name}-now",
            params=dict(planned.runtime_config.parameters or {}),
            pipeline_id=version.pipeline_id,
            version_id=version.pipeline_version_id,
            enable_caching=False,
        )
        return str(run.run_id)


def _schedules(client: Client, experiment_id: str, name: str) -> list[str]:
    """Return the ids of all recurring runs of a name in an experiment; one left out would run beside its successor."""
    run_ids: list[str] = []
    token = ""
    while True:
        page = client.list_recurring_runs(experiment_id=experiment_id, page_size=PAGE, page_token=token)
        run_ids += [run.recurring_run_id for run in page.recurring_runs or [] if run.display_name == name]
        token = page.next_page_token or ""
        if not token:
            return run_ids


def _delete(client: Client, schedules: Sequence[str]) -> None:
    for identifier in schedules:
        client.delete_recurring_run(identifier)
