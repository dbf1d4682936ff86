"""Traces of decisions: each call has the stages of its decision in its own trace, and without traces nothing runs."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import grpc
import pytest
from kserve import ModelRepository
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from local_ledger import NoLedger
from prometheus_client import CollectorRegistry

from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.tokens import ANYONE
from serving.local.launch import free_port
from serving.predictor.__main__ import _kinds
from serving.predictor.api.grpc_api import GrpcServer
from serving.predictor.api.rest import decisions, predict_v1
from serving.predictor.config import Config
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.model import CampaignModel
from serving.predictor.predictor import Predictor
from serving.protocol import Requests
from shadowprice.errors import Unavailable

SHARED = ("features", "curve", "decide", "authorize")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_traces_the_parts_are_the_plain_ones() -> None:
    kinds = _kinds(Config(ledger_url="http://ledger"))
    assert (kinds.model, kinds.predictor) == (CampaignModel, Predictor)
    assert (kinds.metrics, kinds.around) == (PredictorMetrics, None)


WITHOUT = """
import sys
from serving.predictor.__main__ import main
print(sorted({"opentelemetry.sdk", "serving.predictor.tracing"} & sys.modules.keys()))
sys.modules["opentelemetry.sdk"] = None
sys.exit(main(["--campaigns", "nowhere", "--ledger-url", "http://ledger", "--traces", "on"]))
"""


def test_no_code_of_traces_is_loaded_without_them_and_missing_packages_are_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    assert done.returncode == 2
    assert re.search(
        r"^error: traces need opentelemetry\.[a-z.]+: pip install 'shadowprice\[traces\]'$", done.stderr, re.M
    )


@pytest.fixture
def traced(build: Any) -> Iterator[tuple[Any, Any]]:
    """A model whose spans are kept in memory, and what keeps them."""
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from serving.predictor.tracing import TracedMetrics, TracedModel, TracedPredictor

    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))

    def model(**options: Any) -> Any:
        plain = build(**options)[0].predictor
        own = {field.name: getattr(plain, field.name) for field in fields(plain)}
        own["metrics"] = TracedMetrics(plain.campaign, provider, registry=CollectorRegistry())
        made = TracedModel("spring", 1000)
        made.become_ready(TracedPredictor(**own))
        return made

    yield model, kept
    provider.shutdown()


def body(*names: str) -> bytes:
    items = [{"request_id": f"r-{name}", "account_id": name, "side": "customer"} for name in names]
    return json.dumps({"instances": items}).encode()


def test_calls_that_are_decided_together_have_the_stages_in_their_own_traces(traced: Any, build: Any) -> None:
    model, kept = traced[0](), traced[1]

    async def ask() -> list[Any]:
        access = Access(decisions)
        first = [predict_v1(model, access, body(name), ANYONE) for name in ("c1", "c2")]
        answered = await asyncio.gather(*first)
        # This call waits for the end of a micro-batch, whose context is that of another call.
        later = [
            asyncio.create_task(predict_v1(model, access, body(*names), ANYONE)) for names in (["c3"], ["c4", "c5"])
        ]
        return [*answered, *await asyncio.gather(*later)]

    answers = [json.loads(each)["predictions"] for each in asyncio.run(ask())]
    accounts = [f"c{number}" for number in range(1, 6)]
    plain = build()[0].answer(Requests([f"r-{name}" for name in accounts], accounts, ["customer"] * 5))
    assert [each["response"] for call in answers for each in call] == pytest.approx(plain.response.tolist())
    spans = kept.get_finished_spans()
    whole = {span.context.trace_id: span for span in spans if span.name == "decision"}
    assert len(whole) == 4
    names = {span.attributes.get("shadowprice.request_id", "several") for span in whole.values()}
    assert names == {"r-c1", "r-c2", "r-c3", "several"}
    for trace, parent in whole.items():
        own = [span for span in spans if span.context.trace_id == trace and span is not parent]
        assert sorted(span.name for span in own) == sorted(("decode", *SHARED, "encode"))
        assert {span.parent.span_id for span in own} == {parent.context.span_id}
        began = {span.name: span.start_time for span in own}
        assert [began[name] for name in ("decode", *SHARED, "encode")] == sorted(began.values())
        assert all(parent.start_time <= span.start_time <= span.end_time <= parent.end_time for span in own)
        together = {span.attributes["shadowprice.calls"] for span in own if span.name in SHARED}
        assert together == {2}
    from serving.predictor.tracing import _CALLERS

    assert not _CALLERS


def test_an_error_marks_the_decision_without_its_words(traced: Any) -> None:
    model, kept = traced[0](ledger=NoLedger()), traced[1]
    with pytest.raises(Unavailable):
        asyncio.run(predict_v1(model, Access(decisions), body("c1"), ANYONE))
    (whole,) = (span for span in kept.get_finished_spans() if span.name == "decision")
    assert (whole.status.status_code.name, whole.status.description) == ("ERROR", "Unavailable")
    assert not whole.events


def test_a_span_continues_the_trace_that_the_caller_names(traced: Any) -> None:
    from serving.predictor.tracing import TracedApplication

    model, kept = traced[0](), traced[1]

    async def application(*_: Any) -> None:
        await predict_v1(model, Access(decisions), body("c1"), ANYONE)

    scope = {"type": "http", "headers": [(b"host", b"a"), (b"traceparent", CALLER.encode())]}
    asyncio.run(TracedApplication(application)(scope, None, None))
    asyncio.run(TracedApplication(application)({"type": "lifespan"}, None, None))
    one, other = (span for span in kept.get_finished_spans() if span.name == "decision")
    assert f"{one.context.trace_id:032x}" == CALLER.split("-")[1]
    assert f"{one.parent.span_id:016x}" == CALLER.split("-")[2]
    assert other.parent is None


def test_a_call_over_grpc_continues_the_trace_that_its_metadata_names(traced: Any) -> None:
    from serving.predictor.tracing import TracedCalls

    model, kept = traced[0](), traced[1]
    registry = ModelRepository()
    registry.update(model)
    request = messages.ModelInferRequest(model_name="spring")
    for name, value in {"request_id": b"r-c1", "account_id": b"c1", "side": b"customer"}.items():
        tensor = request.inputs.add(name=name, datatype="BYTES", shape=[1])
        tensor.contents.bytes_contents.append(value)

    async def scenario() -> None:
        port = free_port()
        server = GrpcServer(
            DataPlane(model_registry=registry),
            ModelRepositoryExtension(registry),
            f"127.0.0.1:{port}",
            access=Access(decisions),
            admission=Admission(),
            seconds=30.0,
            before=[TracedCalls()],
        )
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = service.GRPCInferenceServiceStub(channel)
                for metadata in ((("traceparent", CALLER),), ()):
                    await stub.ModelInfer(request, metadata=metadata)
        finally:
            await server.stop()

    asyncio.run(scenario())
    one, other = (span for span in kept.get_finished_spans() if span.name == "decision")
    assert f"{one.context.trace_id:032x}" == CALLER.split("-")[1]
    assert f"{one.parent.span_id:016x}" == CALLER.split("-")[2]
    assert other.parent is None


def test_spans_are_exported_by_otlp_to_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from serving.predictor.tracing import open_provider

    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        provider = open_provider()
        with provider.get_tracer("test").start_as_current_span("decision"):
            pass
        provider.shutdown()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    [(path, content)] = received
    assert path == "/v1/traces"
    [resource] = ExportTraceServiceRequest.FromString(content).resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == (
        "shadowprice-predictor"
    )
    assert resource.scope_spans[0].spans[0].name == "decision"
