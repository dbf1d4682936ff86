"""Publication of registered models in the model registry of Kubeflow Hub.

The paths and bodies are those of its API v1alpha3 (decision record 0097). A repeat creates nothing twice: each entry is
looked up by its name, and one that somebody else creates meanwhile is looked up again.
"""

import json
import math
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from operations.common.job import Job, option
from operations.common.journal import note
from operations.common.workspace import MODEL, PUBLISHED, VERSIONS, read_campaign
from shadowprice.calls import call, read_line
from shadowprice.checks import require
from shadowprice.errors import Conflict, ShadowpriceError, Unavailable
from shadowprice.learning.bundle import META, read_meta

API = "api/model_registry/v1alpha3"
LABEL = "modelregistry.kubeflow.org"
"""Prefix of the labels of an InferenceService that name its entries."""
CAMPAIGN, FILES = "campaign", "files"
"""Properties by which an entry is recognized as this campaign's and this model's."""
LINEAGE = ("recipe", "trained_at", "data_sha256", "pipeline_run")
"""Fields of a bundle's manifest that are properties of its version."""
TIMEOUT_SECONDS = 30.0
REFUSED = {
    401: "; name a file with a bearer token by registry_token_file",
    403: "; the token of registry_token_file lacks the right",
    404: "; is this the address of a model registry?",
}


@dataclass(frozen=True, kw_only=True)
class Publishing(Job):
    """Options of a job that publishes the model it registers."""

    registry_url: str = option(
        "", "address of Kubeflow Hub's model registry, as http://model-registry-service.kubeflow:8080; empty: none"
    )
    registry_token_file: str = option("", "file with a bearer token for the registry; empty: none is shown")
    registry_ca_file: str = option("", "certificates of the registry's authority; empty: the system's")
    registry_service: str = option("", "namespace/name of the InferenceService that serves the campaign; empty: none")
    pipeline_run: str = option("", "id of the pipeline's run that the model comes from")

    @property
    def publishing(self) -> dict[str, Any]:
        """Values of these options, for another job."""
        return {name: getattr(self, name) for name in Publishing.__annotations__}

    def check_publishing(self) -> None:
        """Raise :class:`~shadowprice.errors.InvalidInput` for an address or a service that cannot be."""
        good = not self.registry_url or self.registry_url.startswith(("http://", "https://"))
        require(good, "registry_url", f"must be an http or https address, got {self.registry_url!r}")
        namespace, _, name = self.registry_service.partition("/")
        good = not self.registry_service or bool(namespace and name)
        require(good, "registry_service", f"must be namespace/name, got {self.registry_service!r}")


@dataclass(frozen=True)
class ModelRegistry:
    """Client of a model registry.

    url         address, without the path of the API
    token_file  file with a bearer token; empty: none
    ca_file     certificates of its authority; empty: the system's
    """

    url: str
    token_file: str = ""
    ca_file: str = ""

    def ensure(self, kind: str, body: Mapping[str, Any], *, parent: str = "", under: str = "") -> dict[str, Any]:
        """Return the entry of a name, created where there is none.

        Args:
            kind: path of the search, in the singular: ``registered_model``.
            body: fields of the entry, ``name`` among them.
            parent: id of the entry that it belongs to; empty for none.
            under: path on which it is created; the plural of ``kind`` if left out.

        Raises:
            InvalidInput: the token's file cannot be read.
            Unavailable: the registry does not answer, or refuses.
        """
        query = urlencode({"name": body["name"]} | ({"parentResourceId": parent} if parent else {}))
        found = self._send("GET", f"{kind}?{query}", missing=404)
        if found is None:
            found = self._send("POST", under or f"{kind}s", body, missing=409) or self._send("GET", f"{kind}?{query}")
        assert found is not None
        return found

    def update(self, kind: str, entry: str, body: Mapping[str, Any]) -> None:
        """Change fields of the entry of an id."""
        self._send("PATCH", f"{kind}s/{entry}", body)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing: int = 0
    ) -> dict[str, Any] | None:
        """Return the entry of the answer; None where its status is ``missing``."""
        url = f"{self.url.rstrip('/')}/{API}/{path}"
        answer = call(
            url,
            TIMEOUT_SECONDS,
            method=method,
            body=None if body is None else json.dumps(body).encode(),
            token=read_line(self.token_file, "registry_token_file"),
            ca_file=self.ca_file,
        )
        try:
            content = json.loads(answer.body)
            known = isinstance(content, dict) and ("id" in content or answer.status >= 300)
        except ValueError:
            content, known = {}, False
        if known and answer.status == missing:
            return None
        if answer.status >= 300:
            told = content.get("message") if known else ""
            raise Unavailable(
                f"{method} {url}: HTTP {answer.status} {told or answer.reason}{REFUSED.get(answer.status, '')}"
            )
        if not known:
            raise Unavailable(f"{method} {url}: is not an answer of a model registry; a page to sign in?")
        entry: dict[str, Any] = content
        return entry


def lineage_of(workspace: Path, version: str) -> dict[str, str]:
    """Return recipe, time, data and run that a registered version comes from; empty where it is not registered."""
    place = workspace / VERSIONS / version
    meta = read_meta(place) if (place / META).exists() else {}
    return {name: str(meta[name]) for name in LINEAGE if meta.get(name)}


def publish(job: Publishing, workspace: Path, version: str) -> None:
    """Publish a version of the workspace, and tell in words what was done.

    The local registration counts: without the registry a warning says how to repeat the publication.
    """
    if not job.registry_url:
        return
    try:
        labels = _publish(job, workspace, version)
    except ShadowpriceError as error:
        options = {"model": workspace / VERSIONS / version, "workspace": workspace} | job.publishing
        given = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in options.items() if value]
        print(
            f"warning: model {version} is registered in {workspace}, and not published in the model registry: {error}\n"
            f"to publish it: python -m operations register {' '.join(given)} --no-serve",
            file=sys.stderr,
            flush=True,
        )
        return
    note(workspace / PUBLISHED, model_version=version, registry=job.registry_url, labels=labels)
    print(f"published in the model registry: {', '.join(f'{name}={value}' for name, value in labels.items())}")


def _publish(job: Publishing, workspace: Path, version: str) -> dict[str, str]:
    """Create what is missing of model, version, artifact and service; return the labels of the InferenceService."""
    registry = ModelRegistry(job.registry_url, job.registry_token_file, job.registry_ca_file)
    campaign, meta = read_campaign(workspace).name, read_meta(workspace / VERSIONS / version)
    own = _properties({CAMPAIGN: campaign})
    model = registry.ensure("registered_model", {"name": campaign, "customProperties": own})
    _check(model, own, f"the registry has a model {campaign!r} that is not of this campaign; rename one")
    figures = {**meta.get("metrics", {}), **meta.get("evaluation", {})}
    facts = _properties({FILES: json.dumps(meta["files"], sort_keys=True)})
    lineage = lineage_of(workspace, version) | _gate(meta.get("gate"))
    body = {
        "name": version,
        "registeredModelId": model["id"],
        "customProperties": own | facts | _properties(lineage) | _properties(figures),
    }
    found = registry.ensure("model_version", body, parent=model["id"])
    _check(found, facts, f"the registry has another model as version {version}")
    run = {"modelSourceKind": "kfp", "modelSourceClass": "pipelinerun", "modelSourceId": meta.get("pipeline_run", "")}
    artifact = {
        "artifactType": "model-artifact",
        "name": version,
        "uri": (workspace / VERSIONS / version).resolve().as_uri(),
        "modelFormatName": "shadowprice",
        "customProperties": own | facts,
        **(run if run["modelSourceId"] else {}),
    }
    registry.ensure("model_artifact", artifact, parent=found["id"], under=f"model_versions/{found['id']}/artifacts")
    labels = {"registered-model-id": model["id"], "model-version-id": found["id"]}
    if job.registry_service:
        served = (workspace / MODEL).resolve().name == version
        labels["inference-service-id"] = _service(registry, job, model["id"], found["id"] if served else "")
    return {f"{LABEL}/{name}": str(value) for name, value in labels.items()}


def _gate(verdict: Mapping[str, Any] | None) -> dict[str, str]:
    """Verdict of the gate in words; a model that a person took against it says so."""
    if verdict is None:
        return {}
    override = verdict["override"] or {}
    return {"gate": "passed" if verdict["passed"] else f"overridden by {override.get('by')}: {override.get('reason')}"}


def _service(registry: ModelRegistry, job: Publishing, model: str, version: str) -> str:
    """Return the id of the entry of the InferenceService, which names the version that it serves."""
    namespace, _, name = job.registry_service.partition("/")
    place = registry.ensure("serving_environment", {"name": namespace})
    state = {"desiredState": "DEPLOYED"} | ({"modelVersionId": version} if version else {})
    body = {"name": name, "registeredModelId": model, "servingEnvironmentId": place["id"], **state}
    entry = registry.ensure("inference_service", body, parent=place["id"])
    if str(entry.get("registeredModelId")) != model:
        raise Conflict(f"the registry has {job.registry_service} as the service of another model")
    if any(entry.get(field) != value for field, value in state.items()):
        registry.update(
            "inference_service", entry["id"], state | {"customProperties": entry.get("customProperties", {})}
        )
    return str(entry["id"])


def _properties(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Custom properties of texts and finite numbers; others are left out."""
    typed: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if isinstance(value, str):
            typed[name] = {"metadataType": "MetadataStringValue", "string_value": value}
        elif isinstance(value, int | float) and math.isfinite(value):
            typed[name] = {"metadataType": "MetadataDoubleValue", "double_value": float(value)}
    return typed


def _check(entry: Mapping[str, Any], own: Mapping[str, Any], message: str) -> None:
    there = entry.get("customProperties") or {}
    if any(there.get(name, {}).get("string_value") != value["string_value"] for name, value in own.items()):
        raise Conflict(message)
