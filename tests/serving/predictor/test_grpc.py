"""Open Inference V2 over gRPC, with KServe's own client."""

import asyncio
import json
import struct
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kserve import InferInput, InferRequest, ModelRepository
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service
from kserve.protocol.model_repository_extension import ModelRepositoryExtension

from serving.client.client import DecisionClient
from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.limits import MAX_VISITS
from serving.http.tokens import Tokens
from serving.local.launch import free_port
from serving.predictor.api import grpc_guard
from serving.predictor.api.grpc_api import GrpcServer, decode
from serving.predictor.api.grpc_guard import INFER
from serving.predictor.api.rest import decisions
from serving.predictor.model import CampaignModel
from serving.protocol import ACCEPTED, OUTPUTS, Requests
from shadowprice.errors import InvalidRequest

SECRET, READER = "an-example-of-a-token", "an-example-of-a-reader"
NAMES = ("request_id", "account_id", "side")


@pytest.fixture(scope="module")
def stub(world):
    with grpc.insecure_channel(f"127.0.0.1:{world.grpc_port}") as channel:
        yield service.GRPCInferenceServiceStub(channel)


def test_a_client_finds_the_service_by_reflection(world):
    with grpc.insecure_channel(f"127.0.0.1:{world.grpc_port}") as channel:
        found = ProtoReflectionDescriptorDatabase(channel)
        assert set(found.get_services()) == {
            "inference.GRPCInferenceService",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        described = DescriptorPool(found).FindServiceByName("inference.GRPCInferenceService")
        assert described.methods_by_name["ModelInfer"].input_type.full_name == "inference.ModelInferRequest"


def message(columns, name="spring", **changes):
    request = messages.ModelInferRequest(model_name=name, **changes)
    for column, values in columns.items():
        tensor = request.inputs.add(name=column, datatype="BYTES", shape=[len(values)])
        tensor.contents.bytes_contents.extend([value.encode() for value in values])
    return request


def refused(stub, request):
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(request, timeout=20)
    return caught.value.code(), caught.value.details()


def test_it_gives_the_answers_that_http_gives(world, stub):
    columns = {
        "request_id": ["grpc-1", "grpc-2", "grpc-ü"],
        "account_id": ["c1", "m2", "nobody"],
        "side": ["customer", "merchant", "customer"],
    }
    answer = stub.ModelInfer(message(columns, id="call-7"))
    with DecisionClient(world.predictor.url, "spring") as client:
        again = client.decide(*columns.values())
    assert (answer.id, answer.model_name, answer.model_version) == ("call-7", "spring", again.active_model_version)
    assert again.repeat.tolist() == [True] * 3
    found = {output.name: output for output in answer.outputs}
    assert {name: output.datatype for name, output in found.items()} == OUTPUTS
    for name, contents in (
        ("incentive", "int64_contents"),
        ("level", "int_contents"),
        ("response", "fp64_contents"),
        ("expected_cost", "fp64_contents"),
        ("propensity", "fp64_contents"),
        ("price_version", "int64_contents"),
    ):
        np.testing.assert_array_equal(getattr(found[name].contents, contents), getattr(again, name))
    assert list(found["reason"].contents.bytes_contents) == [b"optimal", b"optimal", b"cold_start"]
    assert list(found["repeat"].contents.bool_contents) == [False] * 3
    assert [value.decode() for value in found["model_version"].contents.bytes_contents] == again.model_version.tolist()
    assert again.reason.tolist() == ["optimal", "optimal", "cold_start"]
    assert answer.parameters["price_version"].int64_param == again.active_price_version
    assert answer.parameters["degraded"].bool_param is False
    assert answer.parameters["price_age_seconds"].int64_param <= again.price_age_seconds


def test_it_gives_the_outputs_that_are_asked_for_and_refuses_others(stub):
    columns = {"request_id": ["grpc-outputs"], "account_id": ["c1"], "side": ["customer"]}
    wanted = message(columns)
    for name in ("reason", "incentive"):
        wanted.outputs.add(name=name)
    assert [output.name for output in stub.ModelInfer(wanted).outputs] == ["reason", "incentive"]
    wanted.outputs.add(name="uplift")
    code, details = refused(stub, wanted)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "outputs[2].name: is not an output" in details


def test_kserves_client_is_understood_with_contents_and_raw(stub):
    for raw in (False, True):
        inputs = []
        for name, value in zip(NAMES, (f"kserve-{raw}", "c5", "customer"), strict=True):
            tensor = InferInput(name=name, shape=[1], datatype="BYTES", data=None if raw else [value])
            if raw:
                tensor.set_data_from_numpy(np.array([value.encode()], dtype=object), binary_data=True)
            inputs.append(tensor)
        answer = stub.ModelInfer(InferRequest("spring", inputs).to_grpc())
        reason = next(output for output in answer.outputs if output.name == "reason")
        assert list(reason.contents.bytes_contents) == [b"optimal"]


def test_health_and_metadata_are_kserves_and_models_are_not_managed_from_outside(stub):
    assert stub.ServerLive(messages.ServerLiveRequest()).live
    assert stub.ServerReady(messages.ServerReadyRequest()).ready
    assert stub.ModelReady(messages.ModelReadyRequest(name="spring")).ready
    metadata = stub.ModelMetadata(messages.ModelMetadataRequest(name="spring"))
    assert tuple(tensor.name for tensor in metadata.inputs) == (*NAMES, "partner_id", "x_basket", "c_channel")
    for call, request in (
        (stub.RepositoryModelUnload, messages.RepositoryModelUnloadRequest(model_name="spring")),
        (stub.RepositoryModelLoad, messages.RepositoryModelLoadRequest(model_name="spring")),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    for call, request in (
        (stub.ModelReady, messages.ModelReadyRequest(name="autumn")),
        (stub.ModelMetadata, messages.ModelMetadataRequest(name="autumn")),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_what_is_wrong_is_said_with_the_name_of_the_field(stub):
    good = {"request_id": ["x"], "account_id": ["c1"], "side": ["customer"]}
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert refused(stub, message({**good, "side": ["nobody"]}))[0] is invalid
    assert "side" in refused(stub, message({**good, "side": ["nobody"]}))[1]
    assert "account_id" in refused(stub, message({**good, "account_id": ["\x00"]}))[1]
    assert "missing" in refused(stub, message({"request_id": ["x"]}))[1]
    assert "one shape" in refused(stub, message({**good, "side": ["customer", "merchant"]}))[1]
    many = {name: values * 1001 for name, values in good.items()}
    assert refused(stub, message(many))[0] is invalid
    assert refused(stub, message(good, name="autumn"))[0] is grpc.StatusCode.NOT_FOUND
    stub.ModelInfer(message(good))
    taken = message({**good, "account_id": ["c2"]})
    assert refused(stub, taken)[0] is grpc.StatusCode.ALREADY_EXISTS
    big = message({**good, "account_id": ["a" * 5_000_000]})
    assert refused(stub, big)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


tensors = st.builds(
    lambda **fields: messages.ModelInferRequest.InferInputTensor(**fields),
    name=st.sampled_from([*NAMES, "", "other"]),
    datatype=st.sampled_from(["BYTES", "BYTES", "BYTES", "INT64", ""]),
    shape=st.lists(st.integers(-2, 3), max_size=2),
    contents=st.builds(
        lambda values, numbers: messages.InferTensorContents(bytes_contents=values, int64_contents=numbers),
        st.lists(st.one_of(st.binary(max_size=6), st.sampled_from([b"customer", b"c1"])), max_size=3),
        st.lists(st.integers(0, 9), max_size=1),
    ),
)
requests = st.builds(
    lambda **fields: messages.ModelInferRequest(model_name="spring", **fields),
    id=st.text(max_size=4),
    inputs=st.lists(tensors, max_size=4),
    raw_input_contents=st.lists(st.binary(max_size=12), max_size=4),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=requests)
def test_no_message_makes_the_service_fail(stub, request):
    expected = (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS)
    call = stub.ModelInfer.future(request, timeout=20)
    assert call.code() in expected, call.details()


@settings(max_examples=300, deadline=None)
@given(request=requests)
def test_decoding_gives_requests_or_says_which_field_is_wrong(request):
    try:
        found = decode(request, 2)
    except InvalidRequest as error:
        field = error.field
    else:
        assert isinstance(found, Requests)
        return
    assert field


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(
        st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=9), min_size=1
    )
)
def test_raw_and_plain_contents_mean_the_same(names):
    columns = dict(zip(ACCEPTED, (names, names[::-1], ["merchant"] * len(names), names), strict=True))
    plain = message(columns)
    raw = messages.ModelInferRequest(model_name="spring")
    for column, values in columns.items():
        raw.inputs.add(name=column, datatype="BYTES", shape=[len(values)])
        packed = [struct.pack("<I", len(value.encode())) + value.encode() for value in values]
        raw.raw_input_contents.append(b"".join(packed))
    assert decode(raw, 1000) == decode(plain, 1000) == Requests(*columns.values())


@asynccontextmanager
async def guarded(tmp_path):
    """A server that asks for :data:`SECRET`, without a model that is ready; yields a channel to it."""
    file = tmp_path / "tokens"
    file.write_text(json.dumps({"decide": SECRET, "read": READER}))
    registry = ModelRepository()
    registry.update(CampaignModel("spring", 10))
    plane, port = DataPlane(model_registry=registry), free_port()
    access = Access(decisions, Tokens(file))
    server = GrpcServer(
        plane,
        ModelRepositoryExtension(registry),
        f"127.0.0.1:{port}",
        access=access,
        admission=Admission(),
        seconds=5.0,
    )
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]) as to:
            yield to
    finally:
        await server.stop()


async def code_of(call):
    try:
        await call
    except grpc.aio.AioRpcError as error:
        code, details = error.code(), error.details()
    else:
        return grpc.StatusCode.OK
    assert SECRET not in details
    return code


def test_without_the_token_nothing_is_decided_and_nothing_said_of_it(tmp_path):
    async def codes(*shown):
        """What each of the calls is told: the model is not ready, which only who may ask is told."""
        async with guarded(tmp_path) as channel:
            stub = service.GRPCInferenceServiceStub(channel)
            assert (await stub.ServerLive(messages.ServerLiveRequest())).live
            request = message({name: ["customer"] for name in NAMES})
            metadata = [() if value is None else (("authorization", value),) for value in shown]
            return [await code_of(stub.ModelInfer(request, metadata=each)) for each in metadata]

    refused, served = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE
    shown = [None, "", "Bearer", "Bearer ", SECRET, f"Basic {SECRET}", f"Bearer {SECRET}x", f"Bearer {SECRET}"]
    assert asyncio.run(codes(*shown)) == [refused] * 7 + [served]
    assert asyncio.run(codes(f"bearer {SECRET}")) == [served]
    assert asyncio.run(codes(f"Bearer {READER}")) == [grpc.StatusCode.PERMISSION_DENIED]


def test_of_a_call_without_a_token_no_message_is_read(tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr(grpc_guard, "_parsed", parsed.append)

    async def scenario():
        async with guarded(tmp_path) as channel:
            infer = channel.unary_unary(INFER)
            # Were it read, it would be too long for the server.
            refused = [infer(b"\x0a" * 3_800_000) for _ in range(12)]
            silent = channel.stream_stream(INFER)()
            codes = [await code_of(each) for each in refused]
            return codes, await silent.code()

    unauthenticated = grpc.StatusCode.UNAUTHENTICATED
    assert asyncio.run(scenario()) == ([unauthenticated] * 12, unauthenticated)
    assert parsed == []


def test_what_is_no_message_and_a_name_that_is_no_text_are_the_callers_fault(tmp_path):
    async def scenario(content):
        async with guarded(tmp_path) as channel:
            return await code_of(channel.unary_unary(INFER)(content, metadata=(("authorization", f"Bearer {SECRET}"),)))

    for content in (b"\xff\xff\xff", b"\x0a\x02\xff\xfe"):  # the second names a model in bytes that are no UTF-8
        assert asyncio.run(scenario(content)) is grpc.StatusCode.INVALID_ARGUMENT


def test_calls_that_need_no_token_are_few_at_a_time_and_short(tmp_path, monkeypatch):
    monkeypatch.setattr(grpc_guard, "VISIT_SECONDS", 1.0)
    live = "/inference.GRPCInferenceService/ServerLive"

    async def scenario():
        async with guarded(tmp_path) as channel:
            # Unary calls whose message does not come.
            held = [channel.stream_unary(live)(_nothing()) for _ in range(MAX_VISITS)]
            await asyncio.sleep(0.3)
            more = await code_of(channel.unary_unary(live)(b""))
            codes = [await code_of(each) for each in held]
            return more, set(codes), await code_of(channel.unary_unary(live)(b""))

    status = grpc.StatusCode
    assert asyncio.run(scenario()) == (status.UNAVAILABLE, {status.DEADLINE_EXCEEDED}, status.OK)


async def _nothing():
    await asyncio.sleep(30)
    yield b""
