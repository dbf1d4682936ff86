"""Checks of releases on a cluster: what a shared platform has, and their values do not say or the other way round."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import yaml

from cli.doctor.finding import Finding, Findings, Target
from cli.doctor.kubectl import Kubectl, Object, Unreadable
from components.ray_job.api import TEMPLATE_KEY

QUEUE = "kueue.x-k8s.io/queue-name"
TUNNEL = {"sidecar": 15012, "ambient": 15008}
"""Port that the network policies open for each mesh."""
OPERATOR = "app.kubernetes.io/component=kuberay-operator"
OLDEST_KUBERAY = (1, 5, 1)
AUTH = ("rayclusters.ray.io", "rayjobs.ray.io")
"""Definitions that must have ``authOptions``."""
SERIES = re.compile(r"\{\s*([^{}]*campaign=[^{}]*)\}")
MATCHER = re.compile(r'(\w+)="([^"]*)"')


def release(target: Target) -> Findings:
    """Check the releases of a namespace; what kubectl may not read becomes a note."""
    if not target.namespace:
        return
    cluster = Kubectl(target.namespace)
    try:
        space = cluster.space()
    except Unreadable as error:
        mend = "correct --namespace, or the cluster that kubectl speaks to"
        fault = f"kubectl cannot read namespace {target.namespace}: {error}"
        yield Finding("cluster", fault, mend, note=bool(target.pipelines_url))
        return
    checks: Mapping[str, Callable[[], Findings]] = {
        "release": lambda: _there(cluster),
        "mesh": lambda: _mesh(cluster, space),
        "jobs": lambda: _jobs(cluster),
        "monitoring": lambda: _monitoring(cluster),
    }
    for name, check in checks.items():
        try:
            yield from check()
        except Unreadable as error:
            yield Finding(name, f"{name} was not checked: {error}", "ask somebody who may read it", note=True)


def _there(cluster: Kubectl) -> Findings:
    if not cluster.objects("inferenceservices.serving.kserve.io"):
        fault = f"namespace {cluster.namespace} has no release of the chart"
        yield Finding("release", fault, "install one, or correct --namespace")


def _mesh(cluster: Kubectl, space: Object) -> Findings:
    """Report a namespace of a mesh whose network policies shut the mesh out."""
    labels = space["metadata"].get("labels") or {}
    found = ""
    if labels.get("istio.io/dataplane-mode") == "ambient":
        found = "ambient"
    elif labels.get("istio-injection") == "enabled" or labels.get("istio.io/rev"):
        found = "sidecar"
    policies = cluster.objects("networkpolicies.networking.k8s.io") if found else ()
    ports = {each for policy in policies for each in _values(policy["spec"], "port")}
    if policies and TUNNEL[found] not in ports:
        fault = f"namespace {cluster.namespace} is part of a mesh ({found}) that the network policies shut out"
        yield Finding("mesh", fault, f"set networkPolicy.mesh to {found}")


def _jobs(cluster: Kubectl) -> Findings:
    """Check what the jobs of a release need: a queue that is there, and a KubeRay that keeps tokens."""
    own = cluster.objects("cronjobs.batch,configmaps")
    # Steps fill in a template, which a ConfigMap has.
    templates = [yaml.safe_load(each["data"][TEMPLATE_KEY]) for each in own if TEMPLATE_KEY in each.get("data", {})]
    ray = [*cluster.objects("rayjobs.ray.io,rayclusters.ray.io"), *templates]
    yield from _queue(cluster, [*own, *ray])
    yield from _kuberay(cluster, ray)


def _queue(cluster: Kubectl, jobs: Sequence[Object]) -> Findings:
    """Report queues in which jobs of the release would wait for ever."""
    asked = {queue for each in jobs for queue in _values(each, QUEUE)}
    queues = cluster.objects("localqueues.kueue.x-k8s.io", selector="") if asked else ()
    for queue in sorted(asked - {each["metadata"]["name"] for each in queues}):
        fault = f"namespace {cluster.namespace} has no LocalQueue {queue}, for which jobs of the release wait"
        yield Finding("queue", fault, "make the queue, or set kueue.queue to one that is there")


def _kuberay(cluster: Kubectl, ray: Sequence[Object]) -> Findings:
    """Report a KubeRay that drops the token of the release's Ray clusters."""
    modes = [next((auth["mode"] for auth in _values(each, "authOptions")), "dropped") for each in ray]
    if set(modes) <= {"disabled"}:
        return
    oldest = ".".join(map(str, OLDEST_KUBERAY))
    mend = f"upgrade KubeRay, its definitions and its operator, to {oldest} or later"
    for crd in cluster.definitions(*AUTH):
        if not all(map(_has_auth, _versions(crd))):
            fault = f"the definition {crd['metadata']['name']} has no authOptions, so Ray clusters run without a token"
            yield Finding("kuberay", fault, mend)
    for pod in cluster.objects("pods", selector=OPERATOR, everywhere=True):
        for container in pod["spec"]["containers"]:
            number = re.search(r":v?(\d+)\.(\d+)\.(\d+)", container["image"])
            if number and tuple(map(int, number.groups())) < OLDEST_KUBERAY:
                fault = f"the operator of KubeRay is {'.'.join(number.groups())}, and gives Ray clusters no token"
                yield Finding("kuberay", fault, mend)


def _versions(crd: Object) -> list[Any]:
    """Return the versions of a definition that the chart writes or the API server stores."""
    return [each for each in crd["spec"]["versions"] if each["name"] == "v1" or each.get("storage")]


def _has_auth(version: Object) -> bool:
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return "authOptions" in spec["properties"].get("rayClusterSpec", spec)["properties"]


def _monitoring(cluster: Kubectl) -> Findings:
    """Report rules that would count the series of another release with a campaign of the same name."""
    releases = [
        ((each["metadata"]["namespace"], each["metadata"]["labels"]["app.kubernetes.io/instance"]), chosen)
        for each in cluster.objects("prometheusrules.monitoring.coreos.com", everywhere=True)
        for chosen in _chosen(each)
    ]
    for (reader, asked), (other, given) in permutations(releases, 2):
        series = given | {"namespace": other[0], "app_kubernetes_io_instance": other[1]}
        mixed = reader != other and all(series.get(label) == value for label, value in asked.items())
        if mixed and cluster.namespace in (reader[0], other[0]):
            fault = (
                f"on one Prometheus release {reader[1]} of namespace {reader[0]} also counts campaign "
                f"{asked['campaign']} of release {other[1]} of namespace {other[0]}"
            )
            label = "app_kubernetes_io_instance" if reader[0] == other[0] else "namespace"
            yield Finding("monitoring", fault, f"set monitoring.selectors.{label} of release {reader[1]}")


def _chosen(rule: Object) -> list[dict[str, str]]:
    """Return the labels by which rules choose their series, once for each campaign."""
    expressions = [each["expr"] for group in rule["spec"]["groups"] for each in group["rules"]]
    found = [dict(MATCHER.findall(text)) for expression in expressions for text in SERIES.findall(expression)]
    return [*{each["campaign"]: each for each in found if "campaign" in each}.values()]


def _values(entry: Any, name: str) -> Iterator[Any]:
    """Yield the values of a field at any depth."""
    if isinstance(entry, Mapping):
        if name in entry:
            yield entry[name]
        for each in entry.values():
            yield from _values(each, name)
    elif isinstance(entry, list):
        for each in entry:
            yield from _values(each, name)
