"""A server that answers kubectl's server-side dry runs and Helm's installations as the API server does.

An object is taken if its kind is known, its namespace is there, and the schemas, the CEL rules and the checks of the
operators find no fault with it. Nothing that is sent with ``dryRun=All`` is kept. No controller acts on what is kept.
"""

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml
from listening import listening
from rendering import faults

BINARY = b"k8s\x00"
"""Start of an object in Kubernetes' own binary form."""
CLUSTER_WIDE = ("CustomResourceDefinition", "Namespace")
KINDS = {
    "v1": ("ConfigMap", "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "apps/v1": ("Deployment",),
    "batch/v1": ("CronJob", "Job"),
    "policy/v1": ("PodDisruptionBudget",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "keda.sh/v1alpha1": ("ScaledObject",),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding"),
    "serving.kserve.io/v1beta1": ("InferenceService",),
    "kueue.x-k8s.io/v1beta1": ("LocalQueue",),
    "ray.io/v1": ("RayCluster", "RayJob"),
    "kubeflow.org/v1": ("Profile",),
    "monitoring.coreos.com/v1": ("PodMonitor", "PrometheusRule"),
    "security.istio.io/v1": ("AuthorizationPolicy", "PeerAuthentication"),
}
OBJECT = re.compile(
    r"(?:/api|/apis)/(?P<api>v1|[^/]+/[^/]+)(?:/namespaces/(?P<space>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?$"
)


def plural(kind: str) -> str:
    """The resource of a kind."""
    return re.sub("y$", "ie", re.sub("ss$", "sse", kind.lower())) + "s"


class ApiServer:
    """Namespaces and objects that were created are kept; of a patched object only that it was taken.

    kept       plural/namespace/name → object
    absent     groups with versions that it does not serve
    taken      kind/namespace/name of what was taken
    patched    kind/namespace/name of what was changed
    refused    what was refused, and why
    installed  custom resource definitions by name, as they are read
    forbidden  whether the caller may not read custom resource definitions
    """

    def __init__(self, crds: Path) -> None:
        self.crds = crds
        self.spaces = {"default"}
        self.kept: dict[str, dict[str, Any]] = {}
        self.absent: set[str] = set()
        self.patched: set[str] = set()
        self.taken: set[str] = set()
        self.refused: list[str] = []
        self.installed: dict[str, dict[str, Any]] = {}
        self.forbidden = False

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        kinds = {api: of for api, of in KINDS.items() if api not in self.absent}
        groups = sorted(api for api in kinds if "/" in api)
        if path == "/api":
            return 200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        if path == "/apis":
            return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(api) for api in groups]}
        if path == "/version":
            return 200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
        if path == "/openapi/v3":
            places = {_base(api).lstrip("/"): {"serverRelativeURL": f"/openapi/v3{_base(api)}"} for api in kinds}
            return 200, {"paths": places}
        for api in kinds:
            if path == f"/openapi/v3{_base(api)}":
                return 200, _openapi(api)
            if path == _base(api):
                return 200, {"kind": "APIResourceList", "groupVersion": api, "resources": _resources(api)}
        found = OBJECT.match(path)
        if found is None:
            return _refusal(404, f"{method} {path}: the server could not find the requested resource")
        return self._object(method, found, query, body)

    def keep(self, entry: dict[str, Any], namespace: str) -> None:
        """Keep an object that is there before an installation."""
        self.spaces.add(namespace)
        self.kept[f"{plural(entry['kind'])}/{namespace}/{entry['metadata']['name']}"] = entry

    def _object(self, method: str, found: re.Match[str], query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if body.startswith(BINARY):
            # Helm's record of a release, which is not the chart's.
            return 201, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": found["name"]}}
        if method == "GET" and found["name"] is None:
            items = [each for at, each in self.kept.items() if at.startswith(f"{found['plural']}/{found['space']}/")]
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}
        entry = yaml.safe_load(body) if method != "GET" else {}
        name, space = found["name"] or entry.get("metadata", {}).get("name"), found["space"]
        place = f"{found['plural']}/{space}/{name}"
        if method == "GET":
            if found["plural"] == "customresourcedefinitions":
                if self.forbidden:
                    return _refusal(403, f"customresourcedefinitions {name!r} is forbidden")
                if name in self.installed:
                    return 200, self.installed[name]
            if found["plural"] == "namespaces" and name in self.spaces and place not in self.kept:
                return 200, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            return (200, self.kept[place]) if place in self.kept else _refusal(404, f"{place} not found")
        if method not in ("PATCH", "POST"):
            return _refusal(405, f"{method} is not among what an installation needs")
        dry = query.get("dryRun") == ["All"]
        if method == "PATCH" and place in self.kept:
            self.patched.add(place)
            return 200, self.kept[place]
        told = f"{entry['kind']}/{space or ''}/{name}"
        reasons = faults(entry, self.crds)
        if space is not None and space not in self.spaces:
            reasons = [f"namespaces {space!r} not found"]
        if entry["apiVersion"] != found["api"] or plural(entry["kind"]) != found["plural"]:
            reasons = ["kind and path differ"]
        if reasons:
            self.refused.append(f"{told}: {reasons}")
            return _refusal(422, f"{told} is invalid: {reasons}")
        self.taken.add(told)
        if entry["kind"] == "Namespace" and not dry:
            self.spaces.add(name)
        entry["metadata"] |= {"uid": "0", "resourceVersion": "1", "creationTimestamp": "2024-05-01T00:00:00Z"}
        if method != "PATCH" and not dry:
            self.kept[place] = entry
        return 201, entry


def _base(api: str) -> str:
    return f"/apis/{api}" if "/" in api else f"/api/{api}"


def _group(api: str) -> dict[str, Any]:
    version = {"groupVersion": api, "version": api.partition("/")[2]}
    return {"name": api.partition("/")[0], "versions": [version], "preferredVersion": version}


def _resources(api: str) -> list[dict[str, Any]]:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return [
        {
            "name": plural(kind),
            "singularName": kind.lower(),
            "namespaced": kind not in CLUSTER_WIDE,
            "kind": kind,
            "verbs": verbs,
        }
        for kind in KINDS[api]
    ]


def _openapi(api: str) -> dict[str, Any]:
    """That patches take ``dryRun`` and ``fieldValidation``, which kubectl looks for."""
    group, _, version = api.rpartition("/")
    parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldValidation", "fieldManager", "force")]
    paths = {}
    for kind in KINDS[api]:
        of = {"group": group, "version": version, "kind": kind}
        space = "" if kind in CLUSTER_WIDE else "/namespaces/{namespace}"
        patch = {"parameters": parameters, "x-kubernetes-group-version-kind": of, "responses": {}}
        paths[f"{_base(api)}{space}/{plural(kind)}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"}, "paths": paths}


def _refusal(code: int, message: str) -> tuple[int, dict[str, Any]]:
    reason = {403: "Forbidden", 404: "NotFound", 422: "Invalid"}.get(code, "MethodNotAllowed")
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def serving(server: ApiServer, folder: Path) -> AbstractContextManager[Path]:
    """The server on a free port; gives a kubeconfig that points at it."""
    return listening(server.answer, folder)
