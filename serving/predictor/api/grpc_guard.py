"""Admission of gRPC calls by their metadata, before a byte of their message is read."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from grpc import (
    HandlerCallDetails,
    RpcMethodHandler,
    StatusCode,
    aio,
    stream_stream_rpc_method_handler,
    stream_unary_rpc_method_handler,
    unary_unary_rpc_method_handler,
)
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.limits import MAX_CALLS, MAX_VISITS, REFUSAL_SECONDS, VISIT_SECONDS
from serving.http.refused import Overloaded
from serving.http.tokens import Caller
from shadowprice.errors import InvalidRequest, ShadowpriceError, Unavailable

logger = logging.getLogger("serving")

INFER = "/inference.GRPCInferenceService/ModelInfer"
CODES = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.ALREADY_EXISTS,
    413: StatusCode.INVALID_ARGUMENT,
    422: StatusCode.INVALID_ARGUMENT,
    429: StatusCode.RESOURCE_EXHAUSTED,
    503: StatusCode.UNAVAILABLE,
}
"""Status of our errors → status over gRPC."""

Context: TypeAlias = Any
"""grpc.aio.ServicerContext, which is not typed."""
Infer = Callable[[messages.ModelInferRequest, Caller], Awaitable[messages.ModelInferResponse]]


class Guard(aio.ServerInterceptor):  # type: ignore[misc]
    """Lets calls of ``ModelInfer`` with a token pass, and few of the methods that need none at a time.

    infer      decides for a message
    seconds    for an answer
    admission  bound of the bytes of all messages
    """

    def __init__(self, infer: Infer, access: Access, admission: Admission, seconds: float) -> None:
        self._infer = infer
        self._access = access
        self._admission = admission
        self._seconds = seconds
        self._visits = 0
        self._refusals = 0

    async def intercept_service(
        self,
        continuation: Callable[[HandlerCallDetails], Awaitable[RpcMethodHandler]],
        details: HandlerCallDetails,
    ) -> RpcMethodHandler:
        """Return the handler of a call; that of a refused one reads nothing."""
        handler = await continuation(details)
        if handler is None:
            return None
        if details.method != INFER:
            return self._visited(handler)
        try:
            caller = self._access.caller(_authorization(details.invocation_metadata), "decide")
        except ShadowpriceError as error:
            return stream_stream_rpc_method_handler(partial(self._refuse, error))
        return unary_unary_rpc_method_handler(
            partial(self._decide, caller), response_serializer=handler.response_serializer
        )

    async def _decide(self, caller: Caller, raw: bytes, context: Context) -> messages.ModelInferResponse:
        try:
            with self._admission.hold() as hold:
                hold.add(len(raw))
                async with asyncio.timeout(self._seconds):
                    return await self._infer(_parsed(raw), caller)
        except ShadowpriceError as error:
            await _abort(context, error)
        except TimeoutError:
            await _abort(context, Unavailable(f"no answer within {self._seconds:.0f} s"))
        except Exception:
            logger.exception("gRPC ModelInfer failed")
            await context.abort(StatusCode.INTERNAL, "internal error; see the log of the service")

    async def _refuse(self, error: ShadowpriceError, _: AsyncIterator[bytes], context: Context) -> None:
        """Refuse a call, after a pause while there are few: one that is refused soon calls again soon."""
        if self._refusals < MAX_CALLS // 2:
            self._refusals += 1
            try:
                await asyncio.sleep(REFUSAL_SECONDS)
            finally:
                self._refusals -= 1
        await _abort(context, error)

    def _visited(self, handler: RpcMethodHandler) -> RpcMethodHandler:
        """Return the handler of a method that needs no token, with a bound of its calls and of their time."""
        own, serializers = (
            handler.unary_unary or handler.stream_stream,
            (
                handler.request_deserializer,
                handler.response_serializer,
            ),
        )

        async def unary(requests: AsyncIterator[Any], context: Context) -> Any:
            # As a stream of one message, whose arrival has a limit of time.
            try:
                with self._visit():
                    async with asyncio.timeout(VISIT_SECONDS):
                        return await own(await anext(requests), context)
            except (ShadowpriceError, TimeoutError) as error:
                await _abort(context, error)

        async def stream(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            try:
                with self._visit():
                    async with asyncio.timeout(VISIT_SECONDS):
                        async for answer in own(requests, context):
                            yield answer
            except (ShadowpriceError, TimeoutError) as error:
                await _abort(context, error)

        if handler.unary_unary:
            return stream_unary_rpc_method_handler(unary, *serializers)
        return stream_stream_rpc_method_handler(stream, *serializers)

    @contextmanager
    def _visit(self) -> Iterator[None]:
        if self._visits >= MAX_VISITS:
            raise Overloaded(f"{MAX_VISITS} calls without a token are under way; send the call again")
        self._visits += 1
        try:
            yield
        finally:
            self._visits -= 1


def _parsed(raw: bytes) -> messages.ModelInferRequest:
    try:
        return messages.ModelInferRequest.FromString(raw)
    except DecodeError:
        raise InvalidRequest("is no ModelInferRequest", field="message") from None


async def _abort(context: Context, error: ShadowpriceError | TimeoutError) -> None:
    if isinstance(error, ShadowpriceError):
        await context.abort(CODES.get(error.status, StatusCode.INTERNAL), str(error))
    await context.abort(StatusCode.DEADLINE_EXCEEDED, f"the call took longer than {VISIT_SECONDS:.0f} s")


def _authorization(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    shown = next((value for key, value in metadata or () if key == "authorization"), "")
    return shown if isinstance(shown, str) else ""
