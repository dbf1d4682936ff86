"""Rendering the chart with both generations of Helm, and the schemas that its objects are held against."""

import copy
import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from helm_python import Chart
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "shadowprice"
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE, NAMESPACE = "camp", "growth"
KUBERNETES = "1.33"

Objects = list[dict[str, Any]]


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """Loader of YAML as Kubernetes reads it: PyYAML's rule for a lone ``=`` is not part of it.

    libyaml parses it where PyYAML was built with it, about ten times as fast as Python.
    """


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:value"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def values_of(case: Path) -> dict[str, Any]:
    """Return the values of a file."""
    found: dict[str, Any] = yaml.load(case.read_text(), _Loader)
    return found


def render(values: dict[str, Any], revision: int = 1, release: str = RELEASE, chart: Path = CHART) -> Objects:
    """Return the objects that Helm 4 renders for the first installation, or for a later revision of it."""
    texts = rendered(values, revision, release, chart).items()
    return parse("\n---\n".join(text for name, text in texts if name.endswith(".yaml")))


def rendered(values: dict[str, Any], revision: int = 1, release: str = RELEASE, chart: Path = CHART) -> dict[str, str]:
    """Return the text of each template; equal values are rendered once in a process, but for another chart."""
    render_once = _rendered if chart == CHART else _rendered.__wrapped__
    return render_once(json.dumps(values, sort_keys=True), revision, release, chart)


@cache
def _rendered(values: str, revision: int, release: str, chart: Path) -> dict[str, str]:
    later = revision > 1
    with Chart.load(chart) as loaded:
        files: dict[str, str] = loaded.render(
            json.loads(values),
            name=release,
            namespace=NAMESPACE,
            revision=revision,
            is_install=not later,
            is_upgrade=later,
        )
    return files


def without_tokens(objects: Objects) -> Objects:
    """The objects with the keys of each Secret in place of its data, which differ with each rendering."""
    return [entry | {"data": sorted(entry["data"])} if entry["kind"] == "Secret" else entry for entry in objects]


def template(helm: str, values: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The objects by the Helm 3 command line."""
    return subprocess.run(
        [
            *(helm, "template", RELEASE, str(CHART), "--namespace", NAMESPACE),
            *("--kube-version", f"v{KUBERNETES}.0", "--values", str(values), *options),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def parse(text: str) -> Objects:
    """Objects of a stream of documents, in the order of kind and name."""
    documents = [document for document in yaml.load_all(text, _Loader) if document]
    return sorted(documents, key=lambda entry: (entry["kind"], entry["metadata"]["name"]))


def merged(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The values with one of them, at a dotted path, replaced."""
    result = copy.deepcopy(values)
    *parents, last = path.split(".")
    place = result
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return result


def faults(entry: dict[str, Any], crds: Path, kubernetes: str = KUBERNETES) -> list[str]:
    """What the API server would refuse an object for, or its operator once it is there."""
    return api_faults(entry, crds, kubernetes) or operator_faults(entry)


def api_faults(entry: dict[str, Any], crds: Path, kubernetes: str = KUBERNETES) -> list[str]:
    """What the API server would refuse an object for: unknown fields, wrong types, missing fields, broken rules."""
    group = entry["apiVersion"].rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io"):
        place = crds, entry["apiVersion"], entry["kind"]
        found = [
            f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
            for error in validator(*place).iter_errors(entry)
        ]
        return found or broken_rules(custom_schema(*place), entry)
    try:
        kubernetes_validate.validate(entry, kubernetes, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


@cache
def definition(crds: Path, group: str, kind: str) -> dict[str, Any]:
    """The custom resource definition of a kind; copy it before it is changed."""
    for path in sorted(crds.glob(f"{group}_*.yaml")):
        found: dict[str, Any] = yaml.load(path.read_text(), _Loader)
        if found["spec"]["names"]["kind"] == kind:
            return found
    raise LookupError(f"no schema of {group} {kind} in {crds}")


@cache
def custom_schema(crds: Path, api: str, kind: str) -> dict[str, Any]:
    """OpenAPI schema of a custom resource."""
    group, _, version = api.partition("/")
    found = next(each for each in definition(crds, group, kind)["spec"]["versions"] if each["name"] == version)
    schema: dict[str, Any] = copy.deepcopy(found["schema"]["openAPIV3Schema"])
    # The API server knows these of every object; the schema leaves them out.
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


@cache
def validator(crds: Path, api: str, kind: str) -> Draft202012Validator:
    """Return the validator of a custom resource, which refuses unknown fields."""
    return Draft202012Validator(_strict(custom_schema(crds, api, kind)))


def drop_property(schema: dict[str, Any], *path: str) -> None:
    """Remove a field from a schema, as an earlier version of the definition lacks it."""
    *parents, last = path
    for name in parents:
        schema = schema["properties"][name]
    schema["properties"].pop(last, None)


def unknown_fields(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """Paths of the fields that the API server drops from an object, or refuses under strict field validation."""
    if isinstance(value, list):
        below = schema.get("items", {})
        return [each for i, entry in enumerate(value) for each in unknown_fields(below, entry, f"{path}[{i}]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    found = []
    for name, entry in value.items():
        place = f"{path}.{name}".removeprefix(".")
        if name in schema["properties"]:
            found += unknown_fields(schema["properties"][name], entry, place)
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.append(place)
    return found


def broken_rules(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """CEL rules of a schema that a new object breaks; those about a change (``oldSelf``) hold for new ones."""
    # Its import takes a second, a command line included.
    import cel

    found = [
        f"{path}: {rule.get('message', rule['rule'])}"
        for rule in schema.get("x-kubernetes-validations", [])
        if "oldSelf" not in rule["rule"] and not cel.evaluate(rule["rule"], {"self": value})
    ]
    if isinstance(value, dict):
        for name, each in value.items():
            below = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if isinstance(below, dict):
                found += broken_rules(below, each, f"{path}.{name}")
    if isinstance(value, list):
        for place, each in enumerate(value):
            found += broken_rules(schema.get("items", {}), each, f"{path}[{place}]")
    return found


def operator_faults(entry: dict[str, Any]) -> list[str]:
    """Faults beyond the schemas: the checks of KubeRay's ``ValidateRayJobSpec`` and of Kueue's webhook of RayJobs."""
    if entry["kind"] not in ("RayJob", "RayCluster"):
        return []
    spec, name = entry["spec"], entry["metadata"]["name"]
    longest = {"RayJob": 47, "RayCluster": 50}[entry["kind"]]
    cluster = spec.get("rayClusterSpec", {}) if entry["kind"] == "RayJob" else spec
    found = []
    if len(name) > longest or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name):
        found.append(f"metadata.name: {name!r} has more than {longest} characters, or not a letter first")
    if entry["kind"] == "RayJob":
        if not cluster and not spec.get("clusterSelector"):
            found.append("spec: neither rayClusterSpec nor clusterSelector")
        if spec.get("ttlSecondsAfterFinished", 0) > 0 and not spec.get("shutdownAfterJobFinishes"):
            found.append("spec.ttlSecondsAfterFinished: needs shutdownAfterJobFinishes")
        queued = "kueue.x-k8s.io/queue-name" in entry["metadata"].get("labels", {})
        if queued and not spec.get("shutdownAfterJobFinishes"):
            found.append("spec.shutdownAfterJobFinishes: a job in a queue must delete its cluster")
        deadlines = ("activeDeadlineSeconds", "preRunningDeadlineSeconds")
        found += [f"spec.{key}: must be positive" for key in deadlines if spec.get(key, 1) <= 0]
        if spec.get("backoffLimit", 0) < 0:
            found.append("spec.backoffLimit: must not be negative")
    return found + [
        f"{group['groupName']}: replicas outside of minReplicas and maxReplicas"
        for group in cluster.get("workerGroupSpecs", [])
        if not group.get("minReplicas", 0) <= group.get("replicas", 0) <= group.get("maxReplicas", 2**31)
    ]


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    for key in ("properties", "patternProperties"):
        if isinstance(result.get(key), dict):
            result[key] = {name: _strict(value) for name, value in result[key].items()}
    for key in ("items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"):
        if key in result:
            result[key] = _strict(result[key])
    if "properties" in result and "additionalProperties" not in result:
        result["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    result.pop("format", None)
    return result


def pods(entry: dict[str, Any]) -> Objects:
    """The pod specs inside an object, each with its labels under ``metadata``."""
    spec = entry.get("spec", {})
    match entry["kind"]:
        case "ConfigMap" if text := entry["data"].get("rayjob.yaml"):
            return pods(yaml.load(text, _Loader))
        case "Pod":
            return [entry]
        case "Deployment" | "Job":
            return [spec["template"]]
        case "CronJob":
            return [spec["jobTemplate"]["spec"]["template"]]
        case "InferenceService":
            predictor = dict(spec["predictor"])
            return [{"metadata": {"labels": predictor.get("labels", {})}, "spec": predictor}]
        case "RayJob" | "RayCluster":
            cluster = spec.get("rayClusterSpec", spec)
            submitter = [spec["submitterPodTemplate"]] if "submitterPodTemplate" in spec else []
            workers = [group["template"] for group in cluster["workerGroupSpecs"]]
            return [cluster["headGroupSpec"]["template"], *workers, *submitter]
    return []


def selects(selector: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Whether a label selector selects a pod."""
    labels = pod["metadata"].get("labels", {})
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def helm_command() -> str | None:
    """The Helm 3 command line, where there is one."""
    given = os.environ.get("SHADOWPRICE_HELM", "helm")
    try:
        subprocess.run([given, "version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return given
