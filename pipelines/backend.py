"""The pipelines on a Kubeflow Pipelines backend: uploaded, and scheduled."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kfp import Client
from kfp_server_api import ApiException
from urllib3.exceptions import HTTPError

from pipelines.local import compile_pipelines
from pipelines.parameters import arguments_of
from shadowprice.errors import InvalidInput, NotFound, Unavailable

CRON_FIELDS = 6
PAGE = 100
"""Schedules asked for at a time; the API server gives at most 200."""


def upload(host: str, pipeline: str, name: str) -> tuple[str, str]:
    """Upload a pipeline, as a new version where there is one of that name, and return both ids.

    Args:
        host: address of the Kubeflow Pipelines API.
        pipeline: one of :data:`pipelines.local.PIPELINES`.
        name: of the pipeline in the backend.
    """
    with _speaking_to(host) as client, tempfile.TemporaryDirectory() as folder:
        compile_pipelines(Path(folder), [pipeline])
        package = str(Path(folder) / f"{pipeline}.yaml")
        known = client.get_pipeline_id(name)
        if known is None:
            known = client.upload_pipeline(package, pipeline_name=name).pipeline_id
            versions = client.list_pipeline_versions(known, page_size=1, sort_by="created_at desc")
            return known, versions.pipeline_versions[0].pipeline_version_id
        stamp = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        version = client.upload_pipeline_version(package, pipeline_version_name=stamp, pipeline_id=known)
        return known, version.pipeline_version_id


def schedule(
    host: str, pipeline: str, name: str, *, crons: Sequence[str], experiment: str, parameters: Mapping[str, Any]
) -> list[str]:
    """Run a pipeline at times of one or more clocks, in place of every earlier schedule of that name; returns the ids.

    Missed times are not made up for and runs of one clock do not overlap: each prices the remaining budget at its own
    moment. Results are never taken from a cache, because now matters.

    Args:
        host, pipeline, name: as for :func:`upload`; every recurring run has the name.
        crons: six fields each, the first of them seconds; UTC. A recurring run for each.
        experiment: the runs belong to it; made when it is missing.
        parameters: of the pipeline, and options of its jobs by name.

    Raises:
        InvalidInput: a parameter is none of the pipeline or its jobs; or a cron has not six fields: the backend would
            take the first of five for seconds and run every minute.
        Unavailable: the backend does not answer, or refuses; the earlier schedule stays.
    """
    for cron in crons:
        if len(cron.split()) != CRON_FIELDS:
            raise InvalidInput(
                f"{cron!r} has not {CRON_FIELDS} fields: second minute hour day month weekday", field="cron"
            )
    arguments = arguments_of(pipeline, parameters)
    pipeline_id, version_id = upload(host, pipeline, name)
    with _speaking_to(host) as client:
        return _schedule(client, pipeline_id, version_id, name, crons, experiment, arguments)


def _schedule(
    client: Client,
    pipeline_id: str,
    version_id: str,
    name: str,
    crons: Sequence[str],
    experiment: str,
    parameters: Mapping[str, Any],
) -> list[str]:
    owner = client.create_experiment(experiment).experiment_id
    earlier = _schedules(client, owner, name)
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
                params=dict(parameters),
            )
            made.append(str(run.recurring_run_id))
    except ApiException:
        for identifier in made:
            client.delete_recurring_run(identifier)
        raise
    for run in earlier:
        client.delete_recurring_run(run.recurring_run_id)
    return made


def start_scheduled(host: str, name: str, *, experiment: str) -> str:
    """Run now what a schedule runs, with its version of the pipeline and its parameters; returns the run's id.

    Args:
        host: address of the Kubeflow Pipelines API.
        name: of the schedule, as :func:`schedule` made it.
        experiment: of the schedule.

    Raises:
        NotFound: there is no such schedule.
        Unavailable: the backend does not answer, or refuses.
    """
    with _speaking_to(host) as client:
        owner = client.create_experiment(experiment).experiment_id
        found = _schedules(client, owner, name)
        if not found:
            raise NotFound(f"experiment {experiment!r} has no schedule {name!r}; make it with `pipelines schedule`")
        version = found[0].pipeline_version_reference
        run = client.run_pipeline(
            experiment_id=owner,
            job_name=f"{name}-now",
            params=dict(found[0].runtime_config.parameters or {}),
            pipeline_id=version.pipeline_id,
            version_id=version.pipeline_version_id,
            enable_caching=False,
        )
        return str(run.run_id)


def _schedules(client: Client, experiment_id: str, name: str) -> list[Any]:
    """Recurring runs of that name in an experiment: one that is missed would go on beside its successor."""
    found: list[Any] = []
    token = ""
    while True:
        page = client.list_recurring_runs(experiment_id=experiment_id, page_size=PAGE, page_token=token)
        found += [run for run in page.recurring_runs or [] if run.display_name == name]
        token = page.next_page_token or ""
        if not token:
            return found


@contextmanager
def _speaking_to(host: str) -> Iterator[Client]:
    try:
        yield Client(host=host)
    except (ApiException, HTTPError, OSError) as error:
        reason = _reason(error)
        raise Unavailable(f"Kubeflow Pipelines at {host}: {reason}") from error


def _reason(error: Exception) -> str:
    """The backend's own words where it answered, the first line of the error where it did not."""
    try:
        answer = json.loads(getattr(error, "body", ""))
        return str(answer.get("message") or answer["error"])
    except (TypeError, ValueError, KeyError, AttributeError):
        return str(error).strip().splitlines()[0]
