"""OpenTelemetry traces of decisions; this module is imported only where they are on.

Calls that are decided together share the stages from features to authorization. Each call gets spans of them in its own
trace, with the number of calls.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from grpc import HandlerCallDetails, RpcMethodHandler, aio

from serving.predictor.metrics import PredictorMetrics
from serving.predictor.model import CampaignModel
from serving.predictor.predictor import Predictor
from serving.protocol import Answers, Requests
from shadowprice.campaign import Campaign
from shadowprice.errors import MissingExtra

try:
    from opentelemetry import context as contexts
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtra(f"traces need {error.name}: pip install 'shadowprice[traces]'") from error

NAME = "shadowprice-predictor"
CALLER = ("traceparent", "tracestate")
"""Headers by which a caller names its span."""
_PROPAGATOR = TraceContextTextMapPropagator()
Stages = list[tuple[str, int, int]]
"""Name, begin and end, in nanoseconds since 1970, of the stages of a micro-batch."""
_SHARED: ContextVar[Stages | None] = ContextVar("stages", default=None)
"""Stages of the micro-batch that runs; None outside of one."""
_CALLERS: dict[int, Span] = {}
"""Identity of the requests of a call → the call's span."""


def open_provider() -> TracerProvider:
    """Return a provider that exports by OTLP over HTTP, as the variables ``OTEL_…`` of the SDK say."""
    provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME)}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class TracedMetrics(PredictorMetrics):
    """Metrics whose stages are spans too."""

    def __init__(self, campaign: Campaign, provider: TracerProvider, **how: Any) -> None:
        super().__init__(campaign, **how)
        self.tracer = provider.get_tracer("shadowprice")
        self._attributes = {"shadowprice.campaign": campaign.name}

    def stage(self, stage: str) -> AbstractContextManager[None]:
        """Time a stage of a call, and record it."""
        timed = super().stage(stage)
        shared = _SHARED.get()
        if shared is not None:
            return _Shared(timed, stage, shared)
        whole = stage == "total"
        opened = self.tracer.start_as_current_span(
            "decision" if whole else stage,
            kind=SpanKind.SERVER if whole else SpanKind.INTERNAL,
            attributes=self._attributes,
            # Messages of errors may name accounts.
            record_exception=False,
            set_status_on_exception=False,
        )
        return _Own(timed, opened)


class _Shared(AbstractContextManager[None]):
    def __init__(self, timed: AbstractContextManager[None], name: str, stages: Stages) -> None:
        self._timed, self._name, self._stages = timed, name, stages

    def __enter__(self) -> None:
        self._began = time.time_ns()
        self._timed.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timed.__exit__(kind, error, trace)
        self._stages.append((self._name, self._began, time.time_ns()))


class _Own(AbstractContextManager[None]):
    def __init__(self, timed: AbstractContextManager[None], opened: AbstractContextManager[Span]) -> None:
        self._timed, self._opened = timed, opened

    def __enter__(self) -> None:
        self._span = self._opened.__enter__()
        self._timed.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timed.__exit__(kind, error, trace)
        if kind is not None:
            self._span.set_status(Status(StatusCode.ERROR, kind.__name__))
        self._opened.__exit__(kind, error, trace)


class TracedModel(CampaignModel):
    """A campaign's model that knows the span of each call."""

    async def predict(
        self,
        payload: Requests,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> Answers:
        """Answer together with the other calls that wait."""
        span = get_current_span()
        span.set_attribute("shadowprice.requests", len(payload))
        if len(payload) == 1:
            span.set_attribute("shadowprice.request_id", payload.request_id[0])
        _CALLERS[id(payload)] = span
        try:
            return await super().predict(payload, headers, response_headers)
        finally:
            del _CALLERS[id(payload)]


class TracedPredictor(Predictor):
    """A predictor that gives each call the spans of the stages that it shares with others."""

    async def answer_all(self, calls: Sequence[Requests]) -> list[Answers | Exception]:
        """Answer several calls together, as the base does."""
        stages: Stages = []
        # The task of a micro-batch is its own, so nothing else sees the variable.
        _SHARED.set(stages)
        try:
            return await super().answer_all(calls)
        finally:
            _SHARED.set(None)
            for call in calls:
                self._record(stages, _CALLERS.get(id(call)), len(calls))

    def _record(self, stages: Stages, span: Span | None, calls: int) -> None:
        if span is None or not span.is_recording() or not isinstance(self.metrics, TracedMetrics):
            return
        parent = set_span_in_context(span)
        for name, began, ended in stages:
            # A call of a micro-batch begins before it: the stages lie within its span.
            child = self.metrics.tracer.start_span(
                name, context=parent, start_time=began, attributes={"shadowprice.calls": calls}
            )
            child.end(end_time=ended)


class TracedApplication:
    """ASGI application whose spans continue the trace that a caller names by W3C headers."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", []))
        token = contexts.attach(_named(headers))
        try:
            await self._application(scope, receive, send)
        finally:
            contexts.detach(token)


class TracedCalls(aio.ServerInterceptor):  # type: ignore[misc]
    """Interceptor of gRPC calls whose spans continue the trace that a caller names by W3C metadata."""

    async def intercept_service(
        self,
        continuation: Callable[[HandlerCallDetails], Awaitable[RpcMethodHandler]],
        details: HandlerCallDetails,
    ) -> RpcMethodHandler:
        """Return the handler of a call."""
        # A call has a task, and so a context, of its own, in which its handler runs too.
        contexts.attach(_named(details.invocation_metadata or ()))
        return await continuation(details)


def _named(headers: Iterable[tuple[str, Any]]) -> Context:
    """Return the context of the span that headers name; an empty one where they name none."""
    return _PROPAGATOR.extract({name: value for name, value in headers if name in CALLER})
