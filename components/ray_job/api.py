"""The few calls to the API server that a Ray job takes, from its template to its deletion."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import yaml

from shadowprice.errors import InvalidInput, Unavailable

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayjobs"
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TEMPLATE_KEY = "rayjob.yaml"
TIMEOUT = 30
# The backend of Kubeflow Pipelines gives each step the name of its pod.
POD_VARIABLE = "KFP_POD_NAME"


class Step(NamedTuple):
    """Pod of the step that this process belongs to.

    seconds_left  until Kubernetes stops it; None without a deadline
    """

    name: str
    uid: str
    seconds_left: float | None = None

    @property
    def reference(self) -> dict[str, Any]:
        """Owner reference: Kubernetes deletes what only deleted pods own.

        No controller, because Kueue leaves the queue of an object to the controller that owns it.
        """
        return {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}


class RayJobs(Protocol):
    """Ray jobs of one namespace."""

    def template(self, config_map: str) -> dict[str, Any]:
        """The RayJob that a ConfigMap holds, without its entrypoint."""

    def step(self) -> Step | None:
        """The pod of this process; None outside of a pipeline's step."""

    def create(self, manifest: dict[str, Any]) -> bool:
        """Create a job; False when there is one of that name already."""

    def own(self, name: str, owners: list[dict[str, Any]]) -> None:
        """Replace the owners of a job."""

    def get(self, name: str) -> dict[str, Any] | None:
        """A job with its status; None when there is none."""

    def delete(self, name: str) -> None:
        """Delete a job and with it its cluster; nothing happens when there is none."""


class KubernetesRayJobs:
    """Ray jobs by the API server this process belongs to, or the one of ``KUBECONFIG``.

    Raises:
        Unavailable: there is no API server, or it does not answer.
        InvalidInput: it refuses the object, forbids what is asked, or has no such template.
    """

    def __init__(self) -> None:
        from kubernetes import client, config

        kubeconfig = os.environ.get("KUBECONFIG")
        settings = client.Configuration()
        try:
            if NAMESPACE_FILE.exists() and not kubeconfig:
                config.load_incluster_config(client_configuration=settings)
                self.namespace = NAMESPACE_FILE.read_text().strip()
            else:
                config.load_kube_config(kubeconfig, client_configuration=settings)
                _, active = config.list_kube_config_contexts(kubeconfig)
                self.namespace = str(active["context"].get("namespace", "default"))
        except config.ConfigException as error:
            raise Unavailable(f"a Ray job needs a cluster and there is none: {error}") from error
        self._refusal = client.ApiException
        connection = client.ApiClient(settings)
        self._objects, self._core = client.CustomObjectsApi(connection), client.CoreV1Api(connection)

    def template(self, config_map: str) -> dict[str, Any]:
        """The RayJob that a ConfigMap holds, without its entrypoint."""
        response = self._ask(f"read ConfigMap {config_map}", self._core.read_namespaced_config_map, config_map)
        if response is None:
            raise InvalidInput(f"no ConfigMap {config_map!r} in namespace {self.namespace}", field="ray_job")
        text = (response.data or {}).get(TEMPLATE_KEY)
        if text is None:
            raise InvalidInput(f"ConfigMap {config_map!r} has no key {TEMPLATE_KEY}", field="ray_job")
        return cast(dict[str, Any], yaml.safe_load(text))

    def create(self, manifest: dict[str, Any]) -> bool:
        """Create a job with every field of the manifest; False when there is one of that name already."""
        what = f"create RayJob {manifest['metadata']['name']}"
        create = self._objects.create_namespaced_custom_object
        try:
            # The API server's default drops unknown fields with a warning, and with authOptions the cluster's token.
            self._ask(what, create, body=manifest, field_validation="Strict")
        except _Exists:
            return False
        return True

    def step(self) -> Step | None:
        """The pod of this process; None outside of a pipeline's step."""
        name = os.environ.get(POD_VARIABLE, "")
        pod = self._ask(f"read Pod {name}", self._core.read_namespaced_pod, name) if name else None
        if pod is None:
            return None
        deadline, since = pod.spec.active_deadline_seconds, pod.status.start_time or datetime.now(UTC)
        left = None if deadline is None else deadline - (datetime.now(UTC) - since).total_seconds()
        return Step(name, pod.metadata.uid, left)

    def own(self, name: str, owners: list[dict[str, Any]]) -> None:
        """Replace the owners of a job; nothing happens when there is none."""
        self._ask(
            f"own RayJob {name}",
            self._objects.patch_namespaced_custom_object,
            name=name,
            body={"metadata": {"ownerReferences": owners}},
        )

    def get(self, name: str) -> dict[str, Any] | None:
        """A job with its status; None when there is none."""
        ray_job = self._ask(f"read RayJob {name}", self._objects.get_namespaced_custom_object, name=name)
        return cast("dict[str, Any] | None", ray_job)

    def delete(self, name: str) -> None:
        """Delete a job and with it its cluster; nothing happens when there is none."""
        self._ask(
            f"delete RayJob {name}",
            self._objects.delete_namespaced_custom_object,
            name=name,
            propagation_policy="Foreground",
        )

    def _ask(self, what: str, call: Any, *names: str, **given: Any) -> Any:
        from urllib3.exceptions import HTTPError

        if getattr(call, "__self__", None) is self._objects:
            given |= {"group": GROUP, "version": VERSION, "plural": PLURAL}
        try:
            return call(*names, namespace=self.namespace, _request_timeout=TIMEOUT, **given)
        except self._refusal as refusal:
            reason = _reason(refusal)
            match refusal.status:
                case 404 if not what.startswith("create"):
                    return None
                case 409:
                    raise _Exists(reason) from refusal
                case 400 if "unknown field" in reason:
                    raise InvalidInput(
                        f"the API server would not {what}: {reason}; KubeRay's CRDs are older than the template: "
                        "upgrade KubeRay, or remove the fields from the values that make the template",
                        field="ray_job",
                    ) from refusal
                case 403:
                    raise InvalidInput(
                        f"the service account of this step may not {what}: {reason}; is the name the one that the "
                        "chart gave (helm get notes), and is the account bound to the chart's Role for steps?",
                        field="ray_job",
                    ) from refusal
                case 400 | 404 | 422:
                    raise InvalidInput(f"the API server would not {what}: {reason}", field="ray_job") from refusal
                case _:
                    raise Unavailable(f"the API server would not {what}: {refusal.status} {reason}") from refusal
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the API server did not answer the request to {what}: {error}") from error


class _Exists(Unavailable):
    """Error for an object whose name is taken already."""


def _reason(refusal: Any) -> str:
    try:
        return str(json.loads(refusal.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(refusal.reason)
