"""Checks of a release that need operators and nodes: each has a time limit, and says why it failed."""

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import yaml
from commands import Cluster, Done

from feature_repo.names import REDIS_VARIABLE

OWN = "app.kubernetes.io/name=shadowprice,app.kubernetes.io/instance="
SMALL = 'python -c "import ray; ray.init(); print(ray.get(ray.remote(num_cpus=0)(lambda: 42).remote()))"'
"""Entrypoint of the RayJob: a task on a worker."""
POLL_SECONDS = 3.0
OVER = {"SUCCEEDED", "FAILED", "SKIPPED", "CANCELED"}


class Missing(Exception):
    """Reason not to make a check: a part that the release does without."""


def named(release: Cluster, kind: str, component: str = "") -> dict[str, Any]:
    """Return the release's first object of a kind, by name.

    Raises:
        Missing: there is none.
    """
    labels = OWN + release.name + (f",app.kubernetes.io/component={component}" if component else "")
    done = release.kubectl("get", kind, "--output=json", f"--selector={labels}")
    found = json.loads(done.stdout)["items"] if done.returncode == 0 else []
    if not found:
        raise Missing(f"release {release.name} of namespace {release.space} has no {kind} {component}".rstrip())
    first: dict[str, Any] = min(found, key=lambda each: str(each["metadata"]["name"]))
    return first


def until(read: Callable[[], str | None], seconds: float) -> None:
    """Wait until a state is None; a text is the reason why it is not yet.

    Raises:
        AssertionError: the last reason, after so many seconds.
    """
    end = time.monotonic() + seconds
    while (reason := read()) is not None:
        assert time.monotonic() < end, f"after {seconds:g} s {reason}"
        time.sleep(POLL_SECONDS)


def reconciled(release: Cluster, seconds: float = 600) -> None:
    """KServe makes the predictor, which becomes ready and answers a request."""
    try:
        name = named(release, "inferenceservices.serving.kserve.io")["metadata"]["name"]
    except Missing as error:
        raise AssertionError(f"{error}; install it, or correct NAMESPACE and RELEASE") from None

    def waits() -> str | None:
        conditions = _read(release, "inferenceservices.serving.kserve.io", name).get("status", {}).get("conditions", [])
        if not conditions:
            return f"InferenceService {name} has no status: does the controller of KServe run?"
        states = {each["type"]: each for each in conditions}
        if states.get("Ready", {}).get("status") == "True":
            return None
        # A service that runs is not stopped.
        bad = [each for each in conditions if each["status"] != "True" and each["type"] != "Stopped"]
        return f"InferenceService {name} is not ready: {_why(bad)}"

    until(waits, seconds)
    done = release.helm("test", release.name, "--timeout=5m")
    assert done.returncode == 0, f"the predictor is ready and helm test fails: {_last(done.stderr)}"


def ray_job(release: Cluster, seconds: float = 600) -> None:
    """KubeRay makes a cluster with a token for a job of the template of steps, runs it and deletes the cluster."""
    template = named(release, "configmaps", "training").get("data", {}).get("rayjob.yaml")
    if template is None:
        raise Missing(f"release {release.name} has no template of RayJobs (training.steps.enabled)")
    job = yaml.safe_load(template)
    name = job["metadata"]["name"] = f"{release.name[:30]}-check-{uuid.uuid4().hex[:6]}"
    job["spec"] |= {"entrypoint": SMALL, "activeDeadlineSeconds": int(seconds), "backoffLimit": 0}
    wanted = job["spec"]["rayClusterSpec"].get("authOptions")
    _ok(release.kubectl("create", "--validate=strict", "--filename=-", text=json.dumps(job)), "RayJob")
    try:
        made = _read(release, "rayjobs.ray.io", name)
        assert made["spec"]["rayClusterSpec"].get("authOptions") == wanted, (
            f"RayJob {name} lost its authOptions: upgrade KubeRay's definitions to 1.5.1 or later"
        )

        def waits() -> str | None:
            found = _read(release, "rayjobs.ray.io", name)
            status = found.get("status", {})
            told = f"{status.get('reason', '')} {status.get('message', '')}".strip() or "no reason is given"
            failed = status.get("jobStatus") in ("FAILED", "STOPPED") or "Failed" in status.get(
                "jobDeploymentStatus", ""
            )
            assert not failed, f"RayJob {name} failed: {told}"
            if status.get("jobStatus") == "SUCCEEDED":
                return None
            if found["spec"].get("suspend"):
                return f"RayJob {name} waits in its queue: has the queue quota for it?"
            if not status:
                return f"RayJob {name} has no status: does the operator of KubeRay run?"
            return f"RayJob {name} is {status.get('jobDeploymentStatus', 'new')}: {told}"

        until(waits, seconds)

        def remains() -> str | None:
            clusters = json.loads(_ok(release.kubectl("get", "rayclusters.ray.io", "--output=json"), "RayClusters"))
            owned = [each["metadata"]["name"] for each in clusters["items"] if name in json.dumps(each["metadata"])]
            return f"the cluster {owned[0]} of the finished RayJob {name} is still there" if owned else None

        until(remains, min(seconds, 120))
    finally:
        release.kubectl("delete", "rayjobs.ray.io", name, "--wait=false")


def pipeline(start: Callable[[], str], state: Callable[[str], str], seconds: float = 900) -> None:
    """Kubeflow Pipelines runs the pipeline of the re-solve to its end.

    Args:
        start: starts a run and returns its id.
        state: of a run by its id, in the words of the backend.
        seconds: longest wait.
    """
    run = start()

    def waits() -> str | None:
        found = state(run) or "PENDING"
        assert found not in OVER - {"SUCCEEDED"}, (
            f"run {run} is {found}: its graph in the UI shows the step and its log"
        )
        return None if found == "SUCCEEDED" else f"run {run} is {found}: do its pods find claim, secrets and a node?"

    until(waits, seconds)


def cluster_of(cron_job: dict[str, Any]) -> dict[str, str]:
    """Return the names of a pipeline's steps and the ledger's address, from the CronJob of the re-solve."""
    spec = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    variables = {each["name"]: each for each in container["env"]}
    redis = variables.get(REDIS_VARIABLE, {}).get("valueFrom", {}).get("secretKeyRef", {})
    token = volumes["token"]["secret"]
    return {
        "workspace_claim": volumes["workspace"]["persistentVolumeClaim"]["claimName"],
        "workspace_sub_path": mounts["workspace"].get("subPath", ""),
        "redis_secret": redis.get("name", ""),
        "redis_key": redis.get("key", ""),
        "token_secret": token["secretName"],
        "token_key": token["items"][0]["key"],
        "pull_secrets": ",".join(each["name"] for each in spec.get("imagePullSecrets", [])),
        "ledger_url": variables["SHADOWPRICE_LEDGER_URL"]["value"],
    }


def resolved(release: Cluster, seconds: float = 600) -> None:
    """A job of the release's CronJob measures the spend, solves the price and publishes it."""
    source = named(release, "cronjobs.batch", "resolve")["metadata"]["name"]
    name = f"{source[:40]}-check-{uuid.uuid4().hex[:6]}"
    _ok(release.kubectl("create", "job", f"--from=cronjob/{source}", name), "Job")
    try:

        def waits() -> str | None:
            found = _read(release, "jobs.batch", name)
            conditions = found.get("status", {}).get("conditions", [])
            kinds = {each["type"]: each for each in conditions if each["status"] == "True"}
            if "Failed" in kinds:
                log = release.kubectl("logs", f"job/{name}", "--tail=1")
                raise AssertionError(f"the re-solve failed: {_last(log.stdout) or _why([kinds['Failed']])}")
            if "Complete" in kinds:
                return None
            if found["spec"].get("suspend"):
                return f"Job {name} waits in its queue: has the queue quota for it?"
            return f"Job {name} is not complete: kubectl describe job {name} shows whether its pod started"

        until(waits, seconds)
    finally:
        release.kubectl("delete", "jobs.batch", name, "--wait=false")


def _read(release: Cluster, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_ok(release.kubectl("get", kind, name, "--output=json"), f"{kind} {name}"))
    return found


def _ok(done: Done, what: str) -> str:
    assert done.returncode == 0, f"the API server refuses {what}: {_last(done.stderr)}"
    return done.stdout


def _why(conditions: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{each['type']} ({each.get('reason') or 'no reason'}) {each.get('message', '')}".rstrip()
        for each in conditions
    )


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
