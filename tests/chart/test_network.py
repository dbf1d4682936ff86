"""Who may speak to whom: the policies of the chart, read as the network plugin reads them."""

import pytest
from policies import admitted, foreign, own
from rendering import CHART, merged, render, values_of

PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")


OPERATOR = foreign("operators")
OPERATOR["metadata"]["labels"]["app.kubernetes.io/component"] = "kuberay-operator"
STRANGER = foreign("shop")
NEIGHBOR = foreign("growth", app="another")


@pytest.mark.parametrize("role", ["ray-head", "ray-worker"])
@pytest.mark.parametrize("port", [6379, 8265, 10001])
def test_nobody_but_its_own_pods_reaches_a_ray_cluster(role: str, port: int) -> None:
    target = own(role)
    for caller in (STRANGER, NEIGHBOR, own("predictor"), own("ledger"), own("resolve")):
        assert not admitted(PRODUCTION, caller, target, port)
    for caller in (own("ray-head"), own("ray-worker")):
        assert admitted(PRODUCTION, caller, target, port)


def test_the_dashboard_answers_submitter_and_operator_and_the_client_port_drivers() -> None:
    head = own("ray-head")
    assert admitted(PRODUCTION, own("ray-submitter"), head, 8265)
    assert admitted(PRODUCTION, OPERATOR, head, 8265)
    assert not admitted(PRODUCTION, own("ray-submitter"), head, 10001)
    assert not admitted(PRODUCTION, OPERATOR, head, 10001)
    assert not admitted(PRODUCTION, OPERATOR, own("ray-worker"), 8265)
    assert admitted(PRODUCTION, own("ray-client"), head, 10001)
    alone = merged(PRODUCTION, "training.rayCluster.enabled", False)
    assert not admitted(alone, own("ray-client"), head, 10001)
    # The operator's namespace may be named.
    named = merged(PRODUCTION, "networkPolicy.rayOperator", {"kubernetes.io/metadata.name": "kuberay"})
    assert not admitted(named, OPERATOR, head, 8265)
    there = {**OPERATOR, "namespace": {"kubernetes.io/metadata.name": "kuberay"}}
    assert admitted(named, there, head, 8265)


@pytest.mark.parametrize("role", ["resolve", "watch", "test", "ray-submitter"])
def test_nobody_calls_a_job(role: str) -> None:
    for caller in (STRANGER, NEIGHBOR, own("predictor"), OPERATOR):
        assert not admitted(PRODUCTION, caller, own(role), 8080)


def test_services_answer_the_namespaces_that_are_named_and_the_release() -> None:
    for namespace, calls, scrapes in (("checkout", True, False), ("monitoring", False, True), ("shop", False, False)):
        for role, port in (("predictor", 8080), ("ledger", 8081)):
            assert admitted(PRODUCTION, foreign(namespace), own(role), port) is calls
            assert admitted(PRODUCTION, foreign(namespace), own(role), 8090) is scrapes
    assert admitted(PRODUCTION, own("predictor"), own("ledger"), 8081)
    assert not admitted(PRODUCTION, NEIGHBOR, own("ledger"), 8081)
    assert not admitted(PRODUCTION, foreign("checkout"), own("predictor"), 22)
    open_to_all = {**PRODUCTION, "networkPolicy": {}}
    assert admitted(open_to_all, STRANGER, own("predictor"), 8080)
    # Either list holds without the other.
    called = merged(PRODUCTION, "networkPolicy.scrapers", [])
    assert admitted(called, STRANGER, own("ledger"), 8090)
    assert not admitted(called, STRANGER, own("ledger"), 8081)
    scraped = merged(PRODUCTION, "networkPolicy.callers", [])
    assert admitted(scraped, STRANGER, own("ledger"), 8081)
    assert not admitted(scraped, STRANGER, own("ledger"), 8090)


def test_no_probe_and_no_scrape_uses_the_port_of_the_callers() -> None:
    objects = render(merged(PRODUCTION, "console.enabled", True))
    of_deployments = [entry["spec"]["template"]["spec"] for entry in objects if entry["kind"] == "Deployment"]
    of_predictors = [entry["spec"]["predictor"] for entry in objects if entry["kind"] == "InferenceService"]
    containers = [each for spec in (*of_deployments, *of_predictors) for each in spec["containers"]]
    assert {each["args"][-1] for each in containers} == {"serving.ledger", "serving.predictor", "serving.console"}
    for container in containers:
        assert {"name": "probes", "containerPort": 8090, "protocol": "TCP"} in container["ports"]
        assert {"name": "SHADOWPRICE_PROBE_PORT", "value": "8090"} in container["env"]
        for name, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
            asked = container[f"{name}Probe"]["httpGet"]
            assert (asked["path"], asked["port"] in ("probes", 8090)) == (path, True)
    [monitor] = [entry["spec"] for entry in objects if entry["kind"] == "PodMonitor"]
    assert [each["port"] for each in monitor["podMetricsEndpoints"]] == ["probes"]


def test_without_ray_there_is_no_policy_for_it() -> None:
    minimal = render(values_of(CHART / "ci" / "minimal-values.yaml"))
    names = {entry["metadata"]["name"] for entry in minimal if entry["kind"] == "NetworkPolicy"}
    assert names == {"spring-predictor", "spring-ledger", "spring-jobs"}


def test_a_step_of_kubeflow_pipelines_in_the_namespace_reaches_the_ledger_alone() -> None:
    kubeflow = values_of(CHART / "ci" / "kubeflow-values.yaml")
    assert kubeflow["networkPolicy"]["callers"]
    step, outside = foreign("growth"), foreign("shop")
    for caller in (step, outside):
        caller["metadata"]["labels"] = {"shadowprice/calls": "ledger"}
    assert admitted(kubeflow, step, own("ledger"), 8081)
    assert not admitted(kubeflow, outside, own("ledger"), 8081)
    assert not admitted(kubeflow, step, own("predictor"), 8080)
    assert not admitted(kubeflow, NEIGHBOR, own("ledger"), 8081)
