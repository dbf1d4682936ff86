"""A mesh around the release: what its tunnel, probes, identities and certificates need, and where no sidecar may be."""

from collections.abc import Callable
from typing import Any

import pytest
from api_server import ApiServer
from helm_python import HelmError
from policies import admitted, foreign, own, released
from rendering import CHART, NAMESPACE, merged, pods, render, selects, values_of

PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")
SMALL = values_of(CHART / "ci" / "one-node-values.yaml")
ENDS = {"resolve", "watch", "promote", "test", "ray-head", "ray-worker", "ray-submitter"}
HBONE = 15008


def meshed(mesh: str, **more: Any) -> dict[str, Any]:
    """Every role under a mesh; ``more`` is keyed by paths with ``__`` for dots."""
    values = merged(PRODUCTION, "networkPolicy.mesh", mesh)
    for path, value in {"console.enabled": True, "watch.enabled": True, "promote.enabled": True, **more}.items():
        values = merged(values, path.replace("__", "."), value)
    return values


def by_role(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A pod of each role."""
    found = [pod for entry in render(values) for pod in pods(entry)]
    return {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod for pod in found}


def modes(values: dict[str, Any], role: str) -> dict[int, str]:
    """Mutual TLS of the ports of a role in a namespace that is STRICT, as PeerAuthentications change it."""
    found = {8080: "STRICT", 8081: "STRICT", 8082: "STRICT", 8090: "STRICT"}
    for entry in render(values):
        if entry["kind"] == "PeerAuthentication" and selects(entry["spec"]["selector"], own(role)):
            found |= {int(port): each["mode"] for port, each in entry["spec"]["portLevelMtls"].items()}
    return found


def identified(values: dict[str, Any], role: str, principal: str, port: int) -> bool:
    """Whether policies by identity let a principal in; all are let in where there is none for the role."""
    chosen = [e["spec"] for e in render(values) if e["kind"] == "AuthorizationPolicy"]
    chosen = [spec for spec in chosen if selects(spec["selector"], own(role))]

    def matches(source: dict[str, Any]) -> bool:
        return any(
            principal.endswith(each[1:]) if each.startswith("*") else principal == each
            for each in source["source"]["principals"]
        )

    return not chosen or any(
        str(port) in rule["to"][0]["operation"]["ports"] and ("from" not in rule or any(map(matches, rule["from"])))
        for spec in chosen
        for rule in spec["rules"]
    )


@pytest.mark.parametrize(("mesh", "reached"), [("none", False), ("sidecar", True), ("ambient", False)])
@pytest.mark.parametrize("values", [PRODUCTION, SMALL], ids=["redis", "sqlite"])
def test_a_sidecar_reaches_its_control_plane_and_no_other_namespace(
    mesh: str, reached: bool, values: dict[str, Any]
) -> None:
    values = merged(merged(values, "networkPolicy.mesh", mesh), "console.enabled", True)
    for role in ("ledger", "console"):
        assert released(values, own(role), "istio-system", 15012) is reached
        assert not released(values, own(role), "shop", 15012)
    # Without the name of the control plane no certificate is asked for.
    assert released(values, own("ledger"), "kube-system", 53) is (reached or values["campaign"] == "summer_2027")
    named = merged(values, "networkPolicy.controlPlane", {"kubernetes.io/metadata.name": "mesh"})
    assert released(named, own("ledger"), "mesh", 15012) is reached


def test_the_tunnel_of_an_ambient_mesh_takes_the_callers_and_nobody_else() -> None:
    ambient = meshed("ambient")
    for role in ("predictor", "ledger", "console"):
        assert admitted(ambient, foreign("checkout"), own(role), HBONE)
        assert admitted(ambient, foreign("monitoring"), own(role), HBONE)
        assert not admitted(ambient, foreign("shop"), own(role), HBONE)
        assert not admitted(meshed("sidecar"), foreign("checkout"), own(role), HBONE)
    assert admitted(ambient, own("predictor"), own("ledger"), HBONE)
    assert released(ambient, own("console"), "growth", HBONE) is False  # by namespace: the ledger's pods alone
    # Any scraper may come to its port, and still nobody through the tunnel, which ends at every port.
    scraped = merged(ambient, "networkPolicy.scrapers", [])
    assert admitted(scraped, foreign("shop"), own("ledger"), 8090)
    assert not admitted(scraped, foreign("shop"), own("ledger"), HBONE)


def test_probes_of_an_ambient_mesh_come_from_its_own_addresses_to_the_port_of_probes() -> None:
    for mesh in ("none", "sidecar", "ambient"):
        rules = [
            (entry["metadata"]["name"], rule)
            for entry in render(meshed(mesh))
            if entry["kind"] == "NetworkPolicy"
            for rule in entry["spec"].get("ingress", [])
            if any("ipBlock" in each for each in rule.get("from", []))
        ]
        services = {f"summer-2027-{role}" for role in ("predictor", "ledger", "console")}
        assert {name for name, _ in rules} == (services if mesh == "ambient" else set())
        for _, rule in rules:
            assert [each["port"] for each in rule["ports"]] == [8090]
            assert {"ipBlock": {"cidr": "169.254.7.127/32"}} in rule["from"]


def test_under_strict_mutual_tls_everyone_without_a_certificate_is_still_answered() -> None:
    for mesh in ("sidecar", "ambient"):
        values = meshed(mesh)
        for role in ("predictor", "ledger", "console"):
            assert modes(values, role)[8090] == "PERMISSIVE"
            assert modes(merged(values, "monitoring.podMonitor.scheme", "https"), role)[8090] == "STRICT"
        # Jobs and steps have no sidecar; a pod of an ambient mesh has a certificate by its node.
        plain = "PERMISSIVE" if mesh == "sidecar" else "STRICT"
        assert (modes(values, "ledger")[8081], modes(values, "predictor")[8080]) == (plain, plain)
        assert modes(values, "console")[8082] == "STRICT"
    assert not [e for e in render(meshed("none")) if e["apiVersion"].startswith("security.istio.io")]


def test_the_monitor_scrapes_with_the_certificate_of_the_mesh() -> None:
    tls = {"ca": {"secret": {"name": "mesh", "key": "root"}}, "insecureSkipVerify": True}
    values = meshed("sidecar", monitoring__podMonitor__scheme="https", monitoring__podMonitor__tlsConfig=tls)
    [monitor] = [entry["spec"] for entry in render(values) if entry["kind"] == "PodMonitor"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", tls)


def test_identities_admit_the_release_its_callers_steps_and_prometheus_and_tokens_stay() -> None:
    callers, steps, scrapers = ([f"cluster.local/ns/{who}"] for who in ("shop/sa/till", "growth/sa/run", "mon/sa/prom"))
    identities = {"enabled": True, "callers": callers, "steps": steps, "scrapers": scrapers}
    values = meshed("sidecar", networkPolicy__identities=identities)
    mine = "cluster.local/ns/growth/sa/summer-2027-"
    for role, port, friends in (
        ("ledger", 8081, [f"{mine}predictor", f"{mine}resolve", f"{mine}console", *callers, *steps]),
        ("predictor", 8080, [f"{mine}resolve", *callers]),
        ("predictor", 9000, callers),
        ("console", 8082, callers),
    ):
        assert all(identified(values, role, each, port) for each in friends)
        assert not identified(values, role, "cluster.local/ns/other/sa/summer-2027-predictor", port)
        assert not identified(values, role, scrapers[0], port)
        assert identified(values, role, scrapers[0], 8090)
        assert not identified(values, role, callers[0], 8090)
    # Who calls a service has an identity then: its port is STRICT, and the job has a sidecar.
    assert modes(values, "ledger")[8081] == "STRICT"
    roles = by_role(values)
    for role in ("resolve", "test"):
        assert roles[role]["metadata"]["labels"]["sidecar.istio.io/inject"] == "true"
    for role in ("predictor", "ledger", "console", "test"):
        assert {e["name"] for e in roles[role]["spec"]["volumes"]} >= {"token"}
    with pytest.raises(HelmError, match=r"set networkPolicy\.mesh \(sidecar or ambient\)"):
        render(merged(values, "networkPolicy.mesh", "none"))


def test_what_ends_and_ray_have_no_sidecar_unless_labels_say_so() -> None:
    roles = by_role(meshed("sidecar"))
    assert set(roles) == {*ENDS - {"promote"}, "predictor", "ledger", "console"}
    off = {role for role, pod in roles.items() if pod["metadata"]["labels"].get("sidecar.istio.io/inject") == "false"}
    assert off == ENDS - {"promote"}  # whose pods are selected as those of the re-solve
    chosen = meshed("sidecar", podLabels={"resolve": {"sidecar.istio.io/inject": "true"}})
    jobs = [e for e in render(chosen) if e["kind"] == "CronJob" and "resolve" in e["metadata"]["name"]]
    for pod in (pod for job in jobs for pod in pods(job)):
        assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "true"


def test_every_role_takes_labels_and_annotations_and_keeps_its_own() -> None:
    named = [*sorted(ENDS - {"promote"}), "predictor", "ledger", "console"]
    marks = {role: {"team": f"of-{role}", "app.kubernetes.io/component": "stolen"} for role in named}
    notes = {role: {"note": f"of {role}"} for role in named}
    roles = by_role(meshed("sidecar", podLabels=marks, podAnnotations=notes))
    assert set(roles) == set(named)
    for role, pod in roles.items():
        assert pod["metadata"]["labels"]["team"] == f"of-{role}"
        annotations = pod["spec"]["annotations"] if role == "predictor" else pod["metadata"]["annotations"]
        assert annotations["note"] == f"of {role}"


def test_jobs_of_every_role_take_labels_and_annotations() -> None:
    kinds = ("resolve", "watch", "promote", "training")
    given = {
        "jobLabels": {kind: {"team": kind} for kind in kinds},
        "jobAnnotations": {kind: {"note": kind} for kind in kinds},
    }
    for entry in render(meshed("none", training__steps__enabled=True, **given)):
        if entry["kind"] == "CronJob":
            entry = entry["spec"]["jobTemplate"]
        elif entry["kind"] not in ("RayJob", "RayCluster"):
            continue
        role = entry["metadata"]["labels"]["app.kubernetes.io/component"]
        assert (entry["metadata"]["labels"]["team"], entry["metadata"]["annotations"]["note"]) == (role, role)


@pytest.mark.parametrize(
    ("labels", "mesh"),
    [
        ({"istio-injection": "enabled"}, "sidecar"),
        ({"istio.io/rev": "1-30"}, "sidecar"),
        ({"istio.io/dataplane-mode": "ambient"}, "ambient"),
        ({"istio-injection": "disabled"}, "none"),
    ],
)
def test_a_namespace_of_a_mesh_is_refused_without_the_value_in_one_sentence(
    labels: dict[str, str], mesh: str, server: ApiServer, install: Callable[..., str]
) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    server.kept[f"namespaces/None/{NAMESPACE}"] = space
    assert (f"set networkPolicy.mesh to {mesh}, because namespace growth" in install()) is (mesh != "none")
    assert install(f"networkPolicy.mesh={mesh}") == ""
