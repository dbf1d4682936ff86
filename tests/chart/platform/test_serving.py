"""The InferenceService on a shared cluster: who sees it, who scales it, and what KServe makes of its metadata."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiServer
from helm_python import HelmError
from policies import admitted, foreign, own
from rendering import CASES, CHART, NAMESPACE, merged, render, rendered, values_of

from serving.predictor.config import Config

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")
VISIBILITY = "networking.kserve.io/visibility"


def service(values: dict[str, Any], chart: Path = CHART) -> dict[str, Any]:
    [found] = [entry for entry in render(values, chart=chart) if entry["kind"] == "InferenceService"]
    return found


def test_nobody_outside_of_the_cluster_reaches_a_predictor_that_is_not_exposed() -> None:
    assert service(MINIMAL)["metadata"]["labels"][VISIBILITY] == "cluster-local"
    exposed = merged(MINIMAL, "predictor.exposed", True)
    assert VISIBILITY not in service(exposed)["metadata"]["labels"]


def test_the_gateway_is_among_the_callers_of_an_exposed_predictor_alone() -> None:
    gateway = {"kubernetes.io/metadata.name": "gateways"}
    exposed = merged(merged(PRODUCTION, "predictor.exposed", True), "networkPolicy.gateway", gateway)
    assert admitted(exposed, foreign("gateways"), own("predictor"), 8080)
    assert not admitted(exposed, foreign("gateways"), own("ledger"), 8081)
    assert not admitted(merged(exposed, "predictor.exposed", False), foreign("gateways"), own("predictor"), 8080)
    with pytest.raises(HelmError, match=r"set networkPolicy\.gateway"):
        render(merged(PRODUCTION, "predictor.exposed", True))
    # Where everybody may call, so may a gateway.
    assert admitted(merged(MINIMAL, "predictor.exposed", True), foreign("gateways"), own("predictor"), 8080)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_new_version_of_the_chart_changes_no_label_of_a_predictors_pods(case: Path, tmp_path: Path) -> None:
    """KServe gives the labels and annotations of the service to its pods, which would restart."""
    later = tmp_path / "shadowprice"
    later.mkdir()
    for path in CHART.iterdir():
        if path.name != "Chart.yaml":
            (later / path.name).symlink_to(path)
    text = (CHART / "Chart.yaml").read_text()
    (later / "Chart.yaml").write_text(text.replace("version: 0.1.0", "version: 0.1.1").replace('"0.1.0"', '"0.1.1"'))
    before, after = service(values_of(case)), service(values_of(case), later)
    assert before["metadata"] == after["metadata"]
    assert before["spec"]["predictor"]["labels"] == after["spec"]["predictor"]["labels"]


def test_no_limit_is_left_to_the_defaults_of_kserve() -> None:
    """They are 1 CPU and 2 GiB, and may be less than the requests."""
    assert set(service(MINIMAL)["spec"]["predictor"]["containers"][0]["resources"]["limits"]) == {"cpu", "memory"}
    with pytest.raises(HelmError, match="missing property 'cpu'"):
        render(merged(MINIMAL, "predictor.resources.limits", {"cpu": None, "memory": "2Gi"}))


def test_a_model_is_called_as_its_service_and_each_of_several_by_its_campaign() -> None:
    def settings(values: dict[str, Any]) -> Config:
        [container] = service(values)["spec"]["predictor"]["containers"]
        return Config.parse([], {each["name"]: each.get("value", "") for each in container["env"]})

    assert settings(PRODUCTION).model_name == service(PRODUCTION)["metadata"]["name"] == "summer-2027"
    assert settings(values_of(CHART / "ci" / "campaigns-values.yaml")).model_name == ""
    with pytest.raises(SystemExit):
        Config.parse(["--campaigns", "/workspace", "--ledger-url", "http://ledger", "--model-name", "spring"])


def scaler(api: str, kind: str, owner: str = "InferenceService") -> dict[str, Any]:
    metadata = {"name": "spring-predictor", "ownerReferences": [{"kind": owner, "name": "spring"}]}
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


HPA, SCALED = scaler("autoscaling/v2", "HorizontalPodAutoscaler"), scaler("keda.sh/v1alpha1", "ScaledObject")


@pytest.mark.parametrize(
    ("there", "by", "told"),
    [
        (HPA, "keda", "install once with predictor.autoscaling.by=none, with which KServe deletes"),
        (SCALED, "hpa", "run kubectl -n growth delete scaledobject spring-predictor"),
        (HPA, "hpa", ""),
        (HPA, "none", ""),
        (HPA, "external", ""),
        (SCALED, "keda", ""),
        (SCALED, "none", ""),
        (scaler("autoscaling/v2", "HorizontalPodAutoscaler", "ScaledObject"), "keda", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_a_scaler_that_kserve_would_leave_is_named_with_the_way_on(
    there: dict[str, Any], by: str, told: str, server: ApiServer, install: Callable[..., str]
) -> None:
    server.keep(there, NAMESPACE)
    said = install(f"predictor.autoscaling.by={by}")
    assert told in said
    assert bool(said) is bool(told)


def test_the_notes_name_what_kserve_leaves_behind(server: ApiServer, notes: Callable[..., str]) -> None:
    for entry in (SCALED, {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "spring"}}):
        server.keep(entry, NAMESPACE)
    told = notes("predictor.autoscaling.by=none")
    assert "delete scaledobject spring-predictor" in told
    assert "kubectl -n growth delete ingress spring" in told
    told = notes("predictor.autoscaling.by=keda", "predictor.exposed=true")
    assert "delete" not in told
    assert "delete" not in rendered(MINIMAL)["shadowprice/templates/NOTES.txt"]
