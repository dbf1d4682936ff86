"""The rendered services in the project's own images: hardened as the chart says, and they do their work."""

import json
import re
from pathlib import Path

import grpc
import httpx
import pytest
from containers import GRPC, USER, Container, Pods, command
from kserve import InferInput, InferRequest, InferResponse
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub
from prometheus_client.parser import text_string_to_metric_families

from shadowprice.price import PriceRecord

pytestmark = pytest.mark.timeout(3600)
NAMES = ("request_id", "account_id", "side")


def value(page: str, sample: str, **labels: str) -> float:
    return sum(
        found.value
        for family in text_string_to_metric_families(page)
        for found in family.samples
        if found.name == sample and labels.items() <= found.labels.items()
    )


@pytest.mark.parametrize("role", ["serving", "ledger", "pipeline"])
def test_an_image_is_small_labeled_and_keeps_nothing_of_the_machine_it_was_built_on(role, built) -> None:
    image = built(role)
    [found] = json.loads(command("podman", "image", "inspect", image))
    assert found["User"] == f"{USER}:{USER}"
    assert found["Labels"]["org.opencontainers.image.version"] == image.rpartition(":")[2]
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", found["Labels"]["org.opencontainers.image.revision"])
    assert found["Size"] < {"serving": 1.1e9, "ledger": 0.8e9, "pipeline": 2.7e9}[role]
    history = command("podman", "history", "--no-trunc", image) + json.dumps(found["Config"])
    assert not re.search(r"https?://|index-url|find-links|certificates=", history.replace("http://localhost", ""))
    unwanted = ["pip", "uv", "gcc"]
    unwanted += {"ledger": ["torch", "ray", "feast", "kserve"], "serving": ["torch", "ray"], "pipeline": []}[role]
    script = (
        "import importlib.util, os, shutil;"
        f"print([n for n in {unwanted!r} if importlib.util.find_spec(n) or shutil.which(n)]"
        "+ [n for n in os.environ if n.startswith(('PIP_', 'UV_'))]"
        "+ [p for p in ('/etc/pip.conf', '/tmp/.config/pip') if os.path.exists(p)])"
    )
    assert command("podman", "run", "--rm", "--network=none", image, "python", "-c", script).strip() == "[]"


@pytest.mark.parametrize("role", ["serving", "ledger", "pipeline"])
def test_the_list_of_parts_has_every_installed_distribution_with_its_version(role, built, parts: Path) -> None:
    script = (
        "import json; from importlib.metadata import distributions;"
        "parts = json.load(open('/opt/shadowprice/sbom.cdx.json'));"
        "same = lambda name, version: [name.lower().replace('_', '-').replace('.', '-'), version];"
        "listed = sorted(same(part['name'], part['version']) for part in parts['components']);"
        "there = sorted(same(each.metadata['Name'], each.version) for each in distributions());"
        "print(json.dumps([parts, listed, there]))"
    )
    told = command("podman", "run", "--rm", "--network=none", built(role), "python", "-c", script)
    inside, listed, there = json.loads(told)
    assert inside["bomFormat"] == "CycloneDX"
    assert listed == there
    assert "shadowprice" in dict(listed)
    # The build has copied it out of the image.
    assert json.loads((parts / f"{role}.cdx.json").read_text()) == inside


@pytest.mark.parametrize("service", ["ledger", "predictor"])
def test_a_service_runs_as_the_chart_says(service: str, pods: Pods, request) -> None:
    container: Container = request.getfixturevalue(service)
    status = container.inside("cat /proc/1/status").stdout
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert set(fields["Uid"].split()) == {str(USER)}
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == "2"
    for place in ("/", "/opt/shadowprice", "/etc", "/var/tmp"):
        refused = container.inside(f"touch {place}/x")
        assert refused.returncode != 0, place
    assert "Read-only" in container.inside("touch /opt/shadowprice/x").stderr
    assert container.inside("touch /tmp/x").returncode == 0


def test_the_rendered_resolve_publishes_a_certified_price(pods: Pods, first_price: str) -> None:
    assert "published version 1" in first_price
    [path] = sorted((pods.workspace / "prices" / "world").glob("*.json"))
    record = PriceRecord.from_json(path.read_text())
    assert record.status == "optimal"
    assert abs(record.gap) <= 1e-6


def test_inference_in_both_protocols_is_authorized_and_counted(
    pods: Pods, predictor: Container, ledger: Container
) -> None:
    requests = [("r1", "nobody", "customer"), ("r2", "nobody", "merchant")]
    v1 = httpx.post(
        f"{predictor.url}/v1/models/world:predict",
        json={"instances": [dict(zip(NAMES, r, strict=True)) for r in requests]},
        timeout=30,
        headers=pods.bearer("decide"),
    )
    assert v1.status_code == 200, v1.text
    first = v1.json()["predictions"]
    assert [entry["reason"] for entry in first] == ["cold_start", "cold_start"]
    columns = zip(NAMES, zip(*requests, strict=True), strict=True)
    inputs = [{"name": name, "datatype": "BYTES", "shape": [2], "data": list(data)} for name, data in columns]
    v2 = httpx.post(
        f"{predictor.url}/v2/models/world/infer", json={"inputs": inputs}, timeout=30, headers=pods.bearer("decide")
    )
    assert v2.status_code == 200, v2.text
    outputs = {entry["name"]: entry["data"] for entry in v2.json()["outputs"]}
    # The same requests again: the same answers, and no more money.
    assert outputs["incentive"] == [entry["incentive"] for entry in first]
    assert v2.json()["parameters"]["price_version"] == 1
    page = httpx.get(f"{ledger.url}/metrics").text
    authorized = value(page, "shadowprice_authorized_minor_units_total")
    assert authorized == sum(entry["incentive"] for entry in first)
    assert value(httpx.get(f"{predictor.url}/metrics").text, "shadowprice_cold_start_total") >= 2


def test_inference_over_grpc_gives_the_same_answer(pods: Pods, predictor: Container) -> None:
    inputs = [InferInput(n, [1], "BYTES", [v]) for n, v in zip(NAMES, ("g1", "nobody", "merchant"), strict=True)]
    with grpc.insecure_channel(f"{predictor.address}:{GRPC}") as channel:
        metadata = tuple(pods.bearer("decide").items())
        message = InferRequest("world", inputs).to_grpc()
        answer = InferResponse.from_grpc(
            GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=30, metadata=metadata)
        )
    found = {output.name: output.as_numpy().tolist() for output in answer.outputs}
    body = {"instances": [{"request_id": "g1", "account_id": "nobody", "side": "merchant"}]}
    again = httpx.post(
        f"{predictor.url}/v1/models/world:predict", json=body, timeout=30, headers=pods.bearer("decide")
    ).json()["predictions"]
    # The same request over HTTP: what was promised stands.
    assert again[0]["repeat"] is True
    assert found["reason"] == [again[0]["reason"].encode()]
    assert found["incentive"] == [again[0]["incentive"]]


def test_a_decision_outlives_its_ledger(pods: Pods, predictor: Container, ledger: Container, eventually) -> None:
    body = {"instances": [{"request_id": "kept", "account_id": "nobody", "side": "merchant"}]}
    before = httpx.post(
        f"{predictor.url}/v1/models/world:predict", json=body, timeout=30, headers=pods.bearer("decide")
    ).json()["predictions"]
    started = ledger.state["State"]["StartedAt"]
    # Its first process is told to end; as a Deployment's, the container is started again.
    ledger.inside("kill 1")
    eventually(lambda: ledger.state["State"]["StartedAt"] != started)
    ledger.wait_ready(8081, "/readyz")
    again = httpx.post(f"{predictor.url}/v1/models/world:predict", json=body, timeout=30, headers=pods.bearer("decide"))
    assert again.status_code == 200, again.text
    assert again.json()["predictions"][0]["incentive"] == before[0]["incentive"]


def test_the_charts_own_test_passes(pods: Pods, predictor: Container) -> None:
    # The pod listens on 8080; a Service of KServe's would map port 80 to it.
    told = pods.start(
        "Pod", "world-test", replace={".svc ": ".svc:8080 ", "-predictor.growth.svc": "-predictor.growth.svc:8080"}
    )
    assert "price version 1" in told.wait_done()


def test_an_answer_to_a_bad_request_names_the_field(pods: Pods, predictor: Container) -> None:
    body = {"instances": [{"request_id": "x", "account_id": "a", "side": "nobody"}]}
    refused = httpx.post(
        f"{predictor.url}/v1/models/world:predict", json=body, timeout=30, headers=pods.bearer("decide")
    )
    assert refused.status_code == 400
    assert "side" in refused.text


def test_a_service_stops_when_it_is_told_to(predictor: Container) -> None:
    command("podman", "stop", "--time", "20", predictor.name)
    assert predictor.state["State"]["ExitCode"] in (0, 143), predictor.logs()[-2000:]
