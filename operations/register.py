"""Make a model that passed its gate the one that is served.

To go back to an earlier model, register ``WORKSPACE/models/<version>``. The next price names it, and predictors take
both over together.
"""

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from feature_repo.columns import read_columns
from feature_repo.names import project_of
from feature_repo.online import publish_embeddings
from feature_repo.online.profiles import publish_profiles
from feature_repo.store import configured_online, create
from operations.common.disk import require_space
from operations.common.job import option, reads, required, writes
from operations.common.journal import note
from operations.common.model_registry import Publishing, publish
from operations.common.workspace import (
    COLUMNS,
    FEATURES,
    MODEL,
    POPULATION,
    SERVED_MODELS,
    VERSIONS,
    read_campaign,
)
from shadowprice.documents import read_json
from shadowprice.errors import Conflict, InvalidInput
from shadowprice.evaluation.policy.gate import GateResult
from shadowprice.files import write_whole
from shadowprice.learning.bundle import EMBEDDINGS, META, SPEND, read_meta
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.history import FILE as TRAFFIC
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.reports.data import SideReport
from shadowprice.reports.texts import evaluation_metrics
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import load_heads
from shadowprice.storage import from_json
from shadowprice.tables.database import parquet_parts
from shadowprice.watch.feature_drift import describe_columns

COLUMNS_BYTES = 500
"""Bytes of the columns of an account in both stores and of its curves, for some twenty columns."""


@dataclass(frozen=True, kw_only=True)
class RegisterJob(Publishing):
    """Publish the embeddings of a bundle and the newest features, and make the bundle the newest model.

    The bundle is copied to ``workspace``/models/<version>, whose content never changes, and the link
    ``workspace``/model is pointed to it last and at once: a server or solver that reads meanwhile finds
    the old model or the new one, whole, the embeddings it needs, and the curves that its prices are solved on. The
    next price is solved for the new model, and a running server takes both over together.

    With ``registry_url`` the version is published in a model registry last. Without an answer of the registry the job
    succeeds, and its warning says how to publish later.
    """

    model: Path = reads("folder of the bundle, such as WORKSPACE/models/<version>")
    workspace: Path = required("folder that outlives the run")
    evaluation: Path | None = reads("JSON that the job evaluate wrote; its verdict goes into the model", optional=True)
    instead_of: Path | None = reads(
        "folder of a model that the gate refused, which a flat policy replaces", optional=True
    )
    refusal: Path | None = reads("JSON that the job evaluate wrote of that model", optional=True)
    registered: Path | None = writes("JSON with the version of the model, and whether it is served", optional=True)
    serve: bool = option(True, "whether the model is the newest from now on; a canary is registered and not served")


def run(job: RegisterJob) -> str:
    """Register the model.

    Returns:
        The version of the model.

    Raises:
        Conflict: there is another model of this version, or the verdict refuses the model and nobody overrides it.
        InvalidInput: an evaluation, or an address or service of a registry, that cannot be.
    """
    job.check_publishing()
    model, workspace = job.model, job.workspace
    version = str(read_meta(model)["model_version"])
    verdict, found = (None, {}) if job.evaluation is None else _judged(job.evaluation)
    if verdict is not None and not verdict.accepted:
        raise Conflict(f"the gate refuses model {version}: {'; '.join(verdict.reasons)}")
    more: dict[str, Any] = {}
    if verdict is not None:
        override = None if verdict.override is None else asdict(verdict.override)
        more["gate"] = {"passed": verdict.passed, "broken": verdict.reasons, "override": override}
    if job.instead_of is not None:
        refusal = None if job.refusal is None else _judged(job.refusal)[0]
        broken = () if refusal is None else refusal.reasons
        more["instead_of"] = {"model_version": str(read_meta(job.instead_of)["model_version"]), "broken": broken}
    more |= found
    more |= {"pipeline_run": job.pipeline_run} if job.pipeline_run else {}
    require_space(workspace, space_of(model), job.name)
    _keep(model, workspace / VERSIONS / version, more)
    folder = workspace / FEATURES
    columns = read_columns(folder).with_model(version)
    store = create(folder, columns, configured_online(), project_of(read_campaign(workspace)))
    # First the features: where the model that is served loses an embedding, it reads the account's own features.
    publish_profiles(store)
    publish_embeddings(store, parquet_parts(model / EMBEDDINGS), version)
    if (workspace / TRAFFIC).exists():
        population = workspace / POPULATION / version
        traffic = Traffic.load(workspace)
        write_population(population, load_heads(model), model / EMBEDDINGS, traffic)
        _write_columns(workspace, population, traffic)
    if job.serve:
        link = workspace / MODEL
        before = str(read_meta(link.resolve())["model_version"]) if link.exists() else ""
        _point(link, Path(VERSIONS) / version)
        if before != version:
            note(workspace / SERVED_MODELS, model_version=version, before=before)
    publish(job, workspace, version)
    if job.registered is not None:
        write_whole(job.registered, json.dumps({"model_version": version, "served": job.serve}))
    return version


def space_of(model: Path) -> int:
    """Bytes that registering a bundle writes: its vectors in two stores, and columns and curves of each account."""
    embeddings = model / EMBEDDINGS
    accounts = int(pq.read_metadata(embeddings).num_rows)
    return 2 * embeddings.stat().st_size + COLUMNS_BYTES * accounts


def _write_columns(workspace: Path, population: Path, traffic: Traffic) -> None:
    """Keep the distribution of the raw columns of the accounts that ask, for the watch."""
    columns_of = {}
    for side, asking in traffic.accounts.items():
        file = workspace / columns_file(side)
        if file.exists():
            names = pq.read_table(file, columns=["account_id"])["account_id"]
            place = pc.index_in(pa.array(asking.account_id.tolist(), pa.string()), value_set=names)
            described: dict[str, Any] = {}
            for name in pq.read_schema(file).names:
                if name != "account_id":
                    # One column at a time: all of them together are as large as the table.
                    column = pq.read_table(file, columns=[name])[name].take(place).to_pandas()
                    described |= describe_columns(pd.DataFrame({name: column}), asking.activity)
            columns_of[side] = {"accounts": len(asking.account_id), "columns": described}
    write_whole(population / COLUMNS, json.dumps(columns_of))


def _judged(evaluation: Path) -> tuple[GateResult | None, dict[str, Any]]:
    """Return the gate's verdict, and the metrics and the spend of held-out rows in the JSON of an evaluation."""
    try:
        content = read_json(evaluation)
        gate = content["gate"]
        sides = [{name: side[name] for name in ("side", "metrics")} for side in content.get("sides", ())]
        found = {SPEND: content[SPEND]} if content.get(SPEND) else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"is not the JSON of an evaluation: {error}", field=str(evaluation)) from error
    metrics = evaluation_metrics([from_json(SideReport, json.dumps(side)) for side in sides])
    found |= {"evaluation": metrics} if metrics else {}
    return None if gate is None else from_json(GateResult, json.dumps(gate)), found


def _keep(model: Path, place: Path, more: Mapping[str, Any]) -> None:
    """Copy a bundle with more in its manifest, whole or not at all; nothing is done where it is there already."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.parent / f".{place.name}.{uuid.uuid4().hex}"
        left_out = shutil.ignore_patterns("checkpoint", "ray", "progress.json")
        shutil.copytree(model, draft, ignore=left_out, copy_function=_share)
        if more:
            write_whole(draft / META, json.dumps(read_meta(model) | dict(more), indent=1))
        try:
            os.replace(draft, place)
        except OSError:  # somebody else was first
            shutil.rmtree(draft)
            if not place.exists():
                raise
    if file_digests(place) != file_digests(model):
        raise Conflict(f"{place} holds another model of this version; a version is kept as it was registered")


def _share(source: str, target: str) -> str:
    """Copy a file; embeddings, which are never written into, get a second name where the disk is the same."""
    if Path(source).name == EMBEDDINGS:
        try:
            os.link(source, target)
            return target
        except OSError:
            pass
    return str(shutil.copy2(source, target))


def _point(link: Path, target: Path) -> None:
    """Make ``link`` a symbolic link to ``target``, by one rename."""
    if link.is_dir() and not link.is_symlink():
        # A copy of a workspace may have followed the link. Nothing can replace a folder at once.
        os.replace(link, link.with_name(f".{link.name}.{uuid.uuid4().hex}"))
    draft = link.with_name(f".{link.name}.{uuid.uuid4().hex}")
    draft.symlink_to(target, target_is_directory=True)
    os.replace(draft, link)
