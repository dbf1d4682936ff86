"""Open Inference V2 over gRPC, with KServe's own messages."""

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from grpc import StatusCode, aio
from grpc_reflection.v1alpha import reflection
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.model_repository_extension import ModelRepositoryExtension

from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.limits import (
    HEAD_SECONDS,
    IDENTIFIER_RULE,
    IDLE_SECONDS,
    MAX_CALLS,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_STREAMS,
    WINDOW_BYTES,
    is_identifier,
)
from serving.http.tokens import Caller
from serving.predictor.api.grpc_guard import Guard
from serving.protocol import (
    ACCEPTED,
    OUTPUTS,
    Answers,
    Requests,
    check_count,
    checked_columns,
    checked_outputs,
    type_of,
)
from shadowprice.errors import InvalidRequest, NotFound

CONTENTS = {"INT64": "int64_contents", "INT32": "int_contents", "FP64": "fp64_contents", "BOOL": "bool_contents"}


class Servicer(InferenceServicer):  # type: ignore[misc]
    """KServe's servicer, with a status for each error of a caller, and without loading or unloading of models."""

    async def infer(
        self, access: Access, request: messages.ModelInferRequest, caller: Caller
    ) -> messages.ModelInferResponse:
        """Decide, and charge the caller."""
        model = self._model(request.model_name)
        metrics = model.when_ready().metrics
        with metrics.stage("total"):
            with metrics.stage("decode"):
                requests = decode(request, model.max_instances)
                outputs = checked_outputs([output.name for output in request.outputs])
            answers = await model.predict(requests)
            access.charge(caller, answers.authorized)
            with metrics.stage("encode"):
                return encode(answers, model.name, request.id, outputs)

    def _model(self, name: str) -> Any:
        model = self._data_plane.model_registry.get_model(name)
        if model is None:
            known = sorted(self._data_plane.model_registry.get_models())
            raise NotFound(f"model {name!r} does not exist; this service decides for {known}")
        return model

    async def ModelReady(
        self, request: messages.ModelReadyRequest, context: aio.ServicerContext[Any, Any]
    ) -> messages.ModelReadyResponse:
        """Return whether the model decides."""
        try:
            return messages.ModelReadyResponse(ready=await self._model(request.name).healthy())
        except NotFound as error:
            await context.abort(StatusCode.NOT_FOUND, str(error))

    async def ModelMetadata(
        self, request: messages.ModelMetadataRequest, context: aio.ServicerContext[Any, Any]
    ) -> messages.ModelMetadataResponse:
        """Names and types of inputs and outputs."""
        try:
            self._model(request.name)
        except NotFound as error:
            await context.abort(StatusCode.NOT_FOUND, str(error))
        return await super().ModelMetadata(request, context)

    async def RepositoryModelLoad(
        self,
        request: messages.RepositoryModelLoadRequest,  # noqa: ARG002
        context: aio.ServicerContext[Any, Any],
    ) -> messages.RepositoryModelLoadResponse:
        """Refused: the price says which model decides."""
        await context.abort(StatusCode.UNIMPLEMENTED, "models are not loaded from outside; the price names the model")

    async def RepositoryModelUnload(
        self,
        request: messages.RepositoryModelUnloadRequest,  # noqa: ARG002
        context: aio.ServicerContext[Any, Any],
    ) -> messages.RepositoryModelUnloadResponse:
        """Refused, as loading is."""
        await context.abort(StatusCode.UNIMPLEMENTED, "models are not unloaded from outside")


class GrpcServer:
    """The servicer on an address of this machine; shares the event loop of the REST server.

    before  interceptors that a call passes before the check of its token
    """

    def __init__(
        self,
        data_plane: DataPlane,
        repository: ModelRepositoryExtension,
        address: str,
        *,
        access: Access,
        admission: Admission,
        seconds: float,
        before: Sequence[aio.ServerInterceptor] = (),
    ) -> None:
        self._servicer = Servicer(data_plane, repository)
        self._interceptors = [*before, Guard(partial(self._servicer.infer, access), access, admission, seconds)]
        self._address = address
        self._server: aio.Server | None = None

    async def start(self) -> None:
        """Begin to answer.

        Raises:
            RuntimeError: the address is taken.
        """
        # Two servers must not share a port, each with its own calls.
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.max_metadata_size", MAX_HEAD_BYTES),
            ("grpc.absolute_max_metadata_size", MAX_HEAD_BYTES),
            ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
            ("grpc.max_connection_idle_ms", int(IDLE_SECONDS * 1000)),
            ("grpc.server_handshake_timeout_ms", int(HEAD_SECONDS * 1000)),
            # The window grows to megabytes where gRPC measures the connection.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
            ("grpc.so_reuseport", 0),
        ]
        self._server = aio.server(interceptors=self._interceptors, options=options, maximum_concurrent_rpcs=MAX_CALLS)
        service.add_GRPCInferenceServiceServicer_to_server(self._servicer, self._server)
        described = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
        reflection.enable_server_reflection((described, reflection.SERVICE_NAME), self._server)
        self._server.add_insecure_port(self._address)
        await self._server.start()

    async def stop(self) -> None:
        """End, after a moment for the calls in progress."""
        if self._server is not None:
            await self._server.stop(grace=1.0)


def decode(request: messages.ModelInferRequest, max_items: int) -> Requests:
    """Requests of a message with the inputs of the model, of shape [n], as contents or raw.

    Raises:
        InvalidRequest: anything else; names the field and the first offending rows.
    """
    if request.id and not is_identifier(request.id):
        raise InvalidRequest(IDENTIFIER_RULE, field="id")
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequest(f"holds {len(raw)} tensors for {len(request.inputs)} inputs", field="raw_input_contents")
    columns: dict[str, list[Any]] = {}
    for position, tensor in enumerate(request.inputs):
        datatype = type_of(tensor.name, f"inputs[{position}].name")
        field = f"inputs.{tensor.name}"
        if tensor.name in columns:
            raise InvalidRequest("is given twice", field=field)
        if tensor.datatype != datatype:
            raise InvalidRequest(f"must be {datatype}", field=f"{field}.datatype")
        values: Any
        if datatype == "FP64":
            values = _doubles(raw[position], field) if raw else tensor.contents.fp64_contents
        else:
            values = _unpacked(raw[position], max_items, field) if raw else tensor.contents.bytes_contents
        check_count(values, max_items, f"{field}.contents")
        if list(tensor.shape) != [len(values)]:
            raise InvalidRequest(f"must be [{len(values)}], the number of values", field=f"{field}.shape")
        columns[tensor.name] = list(values) if datatype == "FP64" else [_text(value) for value in values]
        if tensor.name not in ACCEPTED and None in columns[tensor.name]:
            raise InvalidRequest("must be UTF-8", field=field)
    return checked_columns(columns)


def encode(
    answers: Answers, model_name: str, name: str, outputs: Sequence[str] = tuple(OUTPUTS)
) -> messages.ModelInferResponse:
    """The answer's message with some outputs, in their order.

    gRPC's parameters know no floating point: the price's age is in whole seconds.
    """
    parameter = messages.InferParameter
    response = messages.ModelInferResponse(
        model_name=model_name,
        model_version=answers.active_model_version,
        id=name,
        parameters={
            "price_version": parameter(int64_param=answers.active_price_version),
            "model_version": parameter(string_param=answers.active_model_version),
            "price_age_seconds": parameter(int64_param=int(answers.price_age_seconds)),
            "degraded": parameter(bool_param=answers.degraded),
        },
    )
    for output in outputs:
        datatype = OUTPUTS[output]
        values = getattr(answers, output)
        tensor = response.outputs.add(name=output, datatype=datatype, shape=[len(answers.reason)])
        if datatype == "BYTES":
            tensor.contents.bytes_contents.extend([value.encode() for value in values])
        else:
            getattr(tensor.contents, CONTENTS[datatype]).extend(values.tolist())
    return response


def _unpacked(raw: bytes, max_items: int, field: str) -> list[bytes]:
    """The values of a raw BYTES tensor: each a length, u32 little-endian, and that many bytes."""
    values: list[bytes] = []
    place = 0
    while place < len(raw):
        if len(values) > max_items:
            break
        length = struct.unpack_from("<I", raw, place)[0] if place + 4 <= len(raw) else len(raw)
        place += 4
        if place + length > len(raw):
            raise InvalidRequest("its raw contents end in the middle of a value", field=field)
        values.append(raw[place : place + length])
        place += length
    return values


def _doubles(raw: bytes, field: str) -> list[float]:
    """The values of a raw FP64 tensor, little-endian; NaN stands for none."""
    if len(raw) % 8:
        raise InvalidRequest("its raw contents end in the middle of a value", field=field)
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def _text(value: bytes) -> str | None:
    """The text, or None, which no identifier is, where it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
