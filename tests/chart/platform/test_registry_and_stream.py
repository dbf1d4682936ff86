"""A model registry, a sink of events and traces: off by default, told to those that call them, and named by labels."""

from typing import Any

import pytest
from helm_python import HelmError
from policies import admitted, foreign, own
from rendering import CHART, merged, pods, render, values_of

from operations.__main__ import main
from operations.promote import PromoteJob
from serving.predictor.config import Config
from serving.stream.__main__ import StreamSettings

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
KUBEFLOW = values_of(CHART / "ci" / "kubeflow-values.yaml")
CAMPAIGNS = values_of(CHART / "ci" / "campaigns-values.yaml")
STREAM = merged(values_of(CHART / "ci" / "console-values.yaml"), "stream", CAMPAIGNS["stream"])
SECRET = KUBEFLOW["registry"] | {"existingSecret": "registry", "caKey": "ca"}
LABEL = "modelregistry.kubeflow.org"


def named(values: dict[str, Any], kind: str, end: str = "") -> dict[str, Any]:
    [found] = [each for each in render(values) if each["kind"] == kind and each["metadata"]["name"].endswith(end)]
    return found


def container(entry: dict[str, Any]) -> dict[str, Any]:
    [pod] = pods(entry)
    [found] = pod["spec"]["containers"]
    return dict(found)


def test_by_default_nothing_names_a_registry_or_a_sink() -> None:
    rendered = str(render(merged(MINIMAL, "promote.enabled", True)))
    assert LABEL not in rendered
    assert "registry-url" not in rendered
    assert "SINK" not in rendered


def test_the_service_has_the_labels_of_the_registry_that_do_not_change_with_a_version() -> None:
    service = named(KUBEFLOW, "InferenceService")["metadata"]
    labels = {name: value for name, value in service["labels"].items() if name.startswith(LABEL)}
    assert labels == {f"{LABEL}/registered-model-id": "1", f"{LABEL}/inference-service-id": "4"}
    assert service["annotations"][f"{LABEL}/url"] == KUBEFLOW["registry"]["url"]
    versioned = named(merged(KUBEFLOW, "registry.modelVersionId", "7"), "InferenceService")["metadata"]
    assert versioned["labels"][f"{LABEL}/model-version-id"] == "7"


@pytest.mark.parametrize(
    ("values", "path", "value", "told"),
    [
        # Hub's controller fails on a service without spec.predictor.model, and its finalizer then keeps the service.
        (KUBEFLOW, "registry.inferenceServiceId", "", "registeredModelId and inferenceServiceId together"),
        (CAMPAIGNS, "registry.registeredModelId", "1", "labels of one model"),
        (MINIMAL, "registry.registeredModelId", "one", "registeredModelId"),
        (STREAM, "stream.sink.url", "", "stream.sink.url: give the address"),
        (STREAM, "ledger.decisionLog.enabled", False, "stream.enabled: needs ledger.decisionLog.enabled"),
        (
            merged(MINIMAL, "training.rayJob.enabled", True),
            "registry",
            SECRET,
            "does not have the secret",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any], path: str, value: Any, told: str) -> None:
    with pytest.raises(HelmError, match=told):
        render(merged(values, path, value))


def test_the_promotion_publishes_where_the_values_say(monkeypatch: pytest.MonkeyPatch) -> None:
    values = merged(merged(KUBEFLOW, "registry", SECRET), "promote.enabled", True)
    job = named(values, "CronJob", "-promote")
    jobs: list[PromoteJob] = []
    monkeypatch.setattr("operations.common.job_command.run_here", jobs.append)
    assert main(container(job)["args"][3:]) == 0
    assert jobs[0].publishing == {
        "registry_url": "http://model-registry-service.kubeflow:8080",
        "registry_token_file": "/etc/shadowprice/registry/token",
        "registry_ca_file": "/etc/shadowprice/registry/ca.crt",
        "registry_service": "growth/spring",
        "pipeline_run": "",
    }
    [pod] = pods(job)
    [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "registry"]
    assert volume["secret"]["items"] == [{"key": "token", "path": "token"}, {"key": "ca", "path": "ca.crt"}]
    [watch] = pods(named(values, "CronJob", "-watch"))
    assert "registry" not in {each["name"] for each in watch["spec"]["volumes"]}


def test_the_training_of_the_chart_publishes_too() -> None:
    values = merged(merged(MINIMAL, "training.rayJob.enabled", True), "registry.url", "http://registry:8080")
    words = named(values, "RayJob")["spec"]["entrypoint"].split()
    assert "--set=registry_url=http://registry:8080" in words
    assert "--set=registry_service=growth/spring" in words


def test_the_stream_reads_the_log_and_writes_its_cursor_alone() -> None:
    stream = named(STREAM, "Deployment", "-stream")
    told = {each["name"]: each["value"] for each in container(stream)["env"]}
    settings = StreamSettings.parse([], told)
    assert (settings.campaign, settings.sink_url) == ("spring", STREAM["stream"]["sink"]["url"])
    assert (str(settings.log_dir), settings.batch) == ("/ledger/served", 100)
    assert settings.sink_ca_file == "/etc/shadowprice/sink/ca.crt"
    mounts = {each["mountPath"]: each for each in container(stream)["volumeMounts"]}
    assert mounts["/ledger"]["readOnly"] is True
    assert mounts["/cursor"] == {"name": "ledger", "mountPath": "/cursor", "subPath": "stream"}
    assert settings.cursor_file.parent.as_posix() == "/cursor"
    assert stream["spec"]["strategy"] == {"type": "Recreate"}
    assert not {"token", "workspace"} & {each["name"] for each in pods(stream)[0]["spec"]["volumes"]}
    found = [
        each for each in render(CAMPAIGNS) if each["kind"] == "Deployment" and "-stream-" in each["metadata"]["name"]
    ]
    cursors = {each["value"] for one in found for each in container(one)["env"] if each["name"].endswith("CURSOR_FILE")}
    assert len(cursors) == len(found) == len(CAMPAIGNS["campaigns"])
    selectors = {str(each["spec"]["selector"]) for each in found}
    assert len(selectors) == len(found)


def test_traces_go_to_a_collector_and_are_off_without_one() -> None:
    assert not [each for each in container(named(MINIMAL, "InferenceService"))["env"] if "OTEL" in each["name"]]
    service = named(merged(MINIMAL, "predictor.traces.endpoint", "http://collector:4318"), "InferenceService")
    told = {each["name"]: each.get("value", "") for each in container(service)["env"]}
    assert Config.parse([], told).traces == "on"
    names = ("EXPORTER_OTLP_ENDPOINT", "TRACES_SAMPLER", "TRACES_SAMPLER_ARG")
    values = ["http://collector:4318", "parentbased_traceidratio", "0.01"]
    assert [told[f"OTEL_{name}"] for name in names] == values


def test_the_stream_is_scraped_and_let_alone_otherwise() -> None:
    [expression] = named(STREAM, "PodMonitor")["spec"]["selector"]["matchExpressions"]
    assert "stream" in expression["values"]
    assert admitted(STREAM, foreign("monitoring"), own("stream"), 8090)
    assert not admitted(STREAM, foreign("checkout"), own("stream"), 8090)
    identities = {
        "enabled": True,
        "callers": ["cluster.local/ns/shop/sa/till"],
        "scrapers": ["cluster.local/ns/m/sa/p"],
    }
    meshed = merged(merged(STREAM, "networkPolicy.mesh", "sidecar"), "networkPolicy.identities", identities)
    rules = named(meshed, "AuthorizationPolicy", "-stream")["spec"]["rules"]
    assert [rule["to"][0]["operation"]["ports"] for rule in rules] == [["8090"]]
    assert named(meshed, "PeerAuthentication", "-stream")["spec"]["portLevelMtls"] == {8090: {"mode": "PERMISSIVE"}}
