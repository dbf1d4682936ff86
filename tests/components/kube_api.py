"""A server that answers as the Kubernetes API does for Pods, ConfigMaps and RayJobs; an operator runs the jobs.

Objects are held against the CRD's schema and their names are taken once. The operator walks a job through the states
that KubeRay reports, and runs its entrypoint for real, in a process of this machine. A queue suspends and resumes jobs.
"""

import copy
import json
import re
import shlex
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from listening import listening
from rendering import api_faults, custom_schema, drop_property, operator_faults, unknown_fields

RAYJOBS = re.compile(r"/apis/ray\.io/v1/namespaces/([^/]+)/rayjobs(?:/([^/?]+))?$")
PODS = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/?]+)$")
CONFIG_MAPS = re.compile(r"/api/v1/namespaces/([^/]+)/configmaps/([^/?]+)$")


class Cluster:
    """One namespace.

    config_maps   name → data
    jobs          name → RayJob
    created       every manifest that was accepted
    pods          name → Pod
    quota         whether the queue admits the job, at each look; afterwards it does. Empty: there is no queue
    operator      False: nobody takes the jobs
    fail          how many of the next jobs end with AppFailed instead of running
    late          whether jobs never end, and are over at their deadline
    outage        answers 500 for so many requests
    missing       paths of fields that the installed definition of RayJob lacks
    """

    def __init__(self, crds: Path) -> None:
        self.crds = crds
        self.config_maps: dict[str, dict[str, str]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.verbs: set[tuple[str, str]] = set()
        self.operator, self.late = True, False
        self.pods: dict[str, dict[str, Any]] = {}
        self.quota: list[bool] = []
        # Whether the operator stays silent only as long as a queue holds the job, as where another cluster runs it.
        self.held_back = False
        self.fail = self.outage = 0
        self.missing: list[tuple[str, ...]] = []
        # Instead of ``python -m operations``: a script with the same arguments.
        self.module = ""
        self.lock = threading.Lock()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if self.outage:
                self.outage -= 1
                return refusal(500, "etcdserver: leader changed")
            if found := CONFIG_MAPS.match(path):
                self.verbs.add(("configmaps", "get"))
                data = self.config_maps.get(found[2])
                return (200, {"data": data}) if data is not None else refusal(404, f'configmaps "{found[2]}" not found')
            if found := PODS.match(path):
                self.verbs.add(("pods", "get"))
                pod = self.pods.get(found[2])
                return (200, pod) if pod is not None else refusal(404, f'pods "{found[2]}" not found')
            found = RAYJOBS.match(path)
            if not found:
                return refusal(403, f"{method} {path} is forbidden")
            name = found[2]
            match method:
                case "POST" if name is None:
                    self.verbs.add(("rayjobs", "create"))
                    return self._create(json.loads(body), query.get("fieldValidation", ["Warn"])[0])
                case "GET" if name:
                    self.verbs.add(("rayjobs", "get"))
                    if name not in self.jobs:
                        return refusal(404, f'rayjobs.ray.io "{name}" not found')
                    job = json.loads(json.dumps(self.jobs[name]))
                    self._reconcile(self.jobs[name])
                    return 200, job
                case "PATCH" if name:
                    self.verbs.add(("rayjobs", "patch"))
                    self.jobs[name]["metadata"] |= json.loads(body)["metadata"]
                    return 200, self.jobs[name]
                case "DELETE" if name:
                    self.verbs.add(("rayjobs", "delete"))
                    self.deleted.append(name)
                    return (
                        (200, {}) if self.jobs.pop(name, None) else refusal(404, f'rayjobs.ray.io "{name}" not found')
                    )
            return refusal(403, f"{method} {path} is forbidden")

    def remove_pod(self, name: str) -> None:
        """Delete a pod, and what only deleted pods own, as the garbage collector does."""
        with self.lock:
            self.pods.pop(name)
            alive = {pod["metadata"]["uid"] for pod in self.pods.values()}
            for job, entry in [*self.jobs.items()]:
                owners = entry["metadata"].get("ownerReferences", [])
                if owners and not any(each["uid"] in alive for each in owners):
                    del self.jobs[job]

    def _create(self, job: dict[str, Any], validation: str) -> tuple[int, dict[str, Any]]:
        schema = custom_schema(self.crds, job["apiVersion"], job["kind"])
        for path in self.missing:
            drop_property(schema := copy.deepcopy(schema), *path)
        # Metadata's own fields are not in the schema.
        unknown = [each for each in unknown_fields(schema, job) if not each.startswith("metadata.")]
        if unknown and validation == "Strict":
            told = ", ".join(f'unknown field "{each}"' for each in unknown)
            return refusal(400, f"RayJob cannot be handled as a RayJob: strict decoding error: {told}")
        # Only unknown fields at the paths of earlier definitions are dropped; all others are refused below.
        for path in self.missing:
            _drop(job, *path)
        if problems := api_faults(job, self.crds):
            return refusal(422, f"RayJob.ray.io is invalid: {problems}")
        name = job["metadata"]["name"]
        if name in self.jobs:
            return refusal(409, f'rayjobs.ray.io "{name}" already exists')
        self.created.append(json.loads(json.dumps(job)))
        if self.quota:
            # The webhook of the queue.
            job["spec"]["suspend"] = True
        self.jobs[name] = job
        return 201, job

    def _reconcile(self, job: dict[str, Any]) -> None:
        """The operator's next step; each look at the job is one."""
        status, spec = job.setdefault("status", {}), job["spec"]
        if "suspend" in spec:
            spec["suspend"] = not self.quota.pop(0) if self.quota else False
        if not self.operator and not (self.held_back and not spec["suspend"]):
            return
        match status.get("jobDeploymentStatus"):
            case "Initializing" | "Running" if spec.get("suspend"):
                status |= {"jobDeploymentStatus": "Suspending"}
            case "Suspending":
                status |= {"jobDeploymentStatus": "Suspended", "jobStatus": "", "rayClusterName": ""}
            case "Suspended":
                status["jobDeploymentStatus"] = "Suspended" if spec["suspend"] else ""
            case None | "":
                # What the operator refuses and the schema does not.
                if problems := operator_faults(job):
                    status |= {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}
                    status["message"] = "; ".join(problems)
                else:
                    status |= {"jobDeploymentStatus": "Initializing", "rayClusterName": f"{job['metadata']['name']}-x"}
            case "Initializing":
                status |= {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "dashboardURL": "head:8265"}
            case "Running" if self.late:
                status |= {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "reason": "DeadlineExceeded"}
            case "Running" if self.fail:
                self.fail -= 1
                status |= {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}
            case "Running":
                _, *words = shlex.split(spec["entrypoint"])
                assert words[:2] == ["-m", "operations"]
                words = [self.module, *words[2:]] if self.module else words
                done = subprocess.run([sys.executable, "-W", "ignore", *words], capture_output=True, text=True)
                if done.returncode:
                    status |= {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}
                    status["message"] = done.stderr.strip().splitlines()[-1]
                else:
                    status |= {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def _drop(entry: dict[str, Any], *path: str) -> None:
    for name in path[:-1]:
        entry = entry.get(name, {})
    entry.pop(path[-1], None)


def refusal(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "message": message}


def serving(cluster: Cluster, folder: Path) -> AbstractContextManager[Path]:
    """The server on a free port; gives a kubeconfig that points at it, namespace ``growth``."""
    return listening(lambda *request: cluster.answer(*request), folder, "growth")
