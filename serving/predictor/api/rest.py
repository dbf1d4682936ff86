"""KServe's server with the endpoints of the contract and nothing else.

KServe's own handlers for prediction parse a body twice, answer some malformed bodies with 500, and
stand beside endpoints that let any caller unload the model. So the two prediction endpoints are
written here, ahead of KServe's application with its data plane and health endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import uvicorn
from fastapi import APIRouter, FastAPI
from kserve import ModelServer
from kserve.errors import (
    ModelNotFound,
    ModelNotReady,
    ServerNotReady,
    model_not_found_handler,
    model_not_ready_handler,
    server_not_ready_handler,
)
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.rest.server import RESTServer, metrics_handler
from kserve.protocol.rest.v1_endpoints import V1Endpoints
from kserve.protocol.rest.v2_datamodels import (
    ListModelsResponse,
    ModelMetadataResponse,
    ModelReadyResponse,
    ServerLiveResponse,
    ServerMetadataResponse,
    ServerReadyResponse,
)
from kserve.protocol.rest.v2_endpoints import V2Endpoints
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from uvicorn.importer import import_from_string

from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.described import answered, refused
from serving.http.docs import add_docs
from serving.http.handler import REQUEST_SECONDS, Handler, RequestHandler
from serving.http.server import BoundedServer
from serving.http.tokens import Caller, Role
from serving.http.web import answering, error_response, parse_json
from serving.predictor.api.answers import Explanations, Inference, Live, ModelReady, Models, Predictions
from serving.predictor.api.grpc_api import GrpcServer
from serving.predictor.api.openapi import OWN_ERRORS, V1_BODY, V2_BODY
from serving.protocol import decode_v1, decode_v2, encode_v1, encode_v2, request_name, requested_outputs
from shadowprice.errors import InvalidRequest, NotFound, Unavailable

if TYPE_CHECKING:
    from serving.predictor.model import CampaignModel


class ReadyDataPlane(DataPlane):  # type: ignore[misc]
    """KServe's data plane, whose server is ready when its models are; KServe's own is ready at once."""

    async def ready(self) -> bool:
        """Return :meth:`ready_now`."""
        return self.ready_now()

    def ready_now(self) -> bool:
        """Return whether a model is ready, and every other one too unless it waits for what is missing.

        A campaign without a price must not keep the others from their callers. Thread-safe.
        """
        models = list(self.model_registry.get_models().values())
        return any(model.ready for model in models) and all(model.ready or model.waits for model in models)


class ContractServer(RESTServer):  # type: ignore[misc]
    """KServe's REST server with the endpoints of the contract, without timing and access logs.

    host       the one address to listen on
    access     check of every request before its body is read
    admission  bound of the bytes of all bodies
    seconds    for a body to arrive, and for an answer
    around     returns an application around that of all requests; None for none
    """

    def __init__(
        self,
        *arguments: Any,
        host: str,
        access: Access,
        admission: Admission,
        seconds: float,
        around: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        # In place of KServe's server, whose connections are not bounded.
        config = self.config
        self._server = BoundedServer(config.app, host, config.port)
        self.config: uvicorn.Config = self._server.config
        self._access = access
        self._admission = admission
        self._seconds = seconds
        self._around = around

    @property
    def beat(self) -> float:
        """Monotonic time at which the event loop was seen running; 0 before."""
        return self._server.beat

    def _register_endpoints(self, app: FastAPI) -> None:
        # A redirect would repeat the caller's Host header.
        app.router.redirect_slashes = False
        v1, v2 = V1Endpoints(self.dataplane), V2Endpoints(self.dataplane)
        router = APIRouter()
        unready = {503: "Not ready, with the reason"}
        of_model = {404: "There is no model of this name"}
        for path, endpoint, answer, errors in (
            ("/", self.dataplane.live, Live, {}),
            ("/v1/models", v1.models, Models, {}),
            ("/v1/models/{model_name}", v1.model_ready, ModelReady, of_model | unready),
            ("/v2", v2.metadata, ServerMetadataResponse, {}),
            ("/v2/health/live", v2.live, ServerLiveResponse, {}),
            ("/v2/health/ready", v2.ready, ServerReadyResponse, unready),
            ("/v2/models", v2.models, ListModelsResponse, {}),
            ("/v2/models/{model_name}", v2.model_metadata, ModelMetadataResponse, of_model),
            ("/v2/models/{model_name}/ready", v2.model_ready, ModelReadyResponse, of_model | unready),
        ):
            router.add_api_route(path, endpoint, response_model=None, responses=answered(answer, errors))
        router.add_api_route("/metrics", metrics_handler, response_class=PlainTextResponse)
        # Described here; the request handler answers for a model of this name, so this route gets other names only.
        names = sorted(self.dataplane.model_registry.get_models())
        parameter = {"name": "model_name", "in": "path", "required": True, "schema": {"type": "string", "enum": names}}
        for path, body, answer in (
            ("/v1/models/{model_name}:predict", V1_BODY, Predictions),
            ("/v1/models/{model_name}:explain", V1_BODY, Explanations),
            ("/v2/models/{model_name}/infer", V2_BODY, Inference),
        ):
            router.add_api_route(
                path,
                answering(self._unknown),
                methods=["POST"],
                openapi_extra={"parameters": [parameter], **body},
                responses=answered(answer, OWN_ERRORS | refused("POST")),
            )
        app.include_router(router)
        add_docs(app)

    async def _unknown(self, request: Request) -> Response:
        known = sorted(self.dataplane.model_registry.get_models())
        raise NotFound(f"model {request.path_params['model_name']!r} does not exist; this service decides for {known}")

    def create_application(self) -> None:
        """KServe's application, with the prediction endpoints of every model ahead of it."""
        super().create_application()
        handlers: dict[str, Handler] = {}
        for name, model in self.dataplane.model_registry.get_models().items():
            handlers[f"/v1/models/{name}:predict"] = partial(predict_v1, model, self._access)
            handlers[f"/v1/models/{name}:explain"] = partial(explain_v1, model)
            handlers[f"/v2/models/{name}/infer"] = partial(infer_v2, model, self._access)
        application = import_from_string(self.config.app)
        handler = RequestHandler(application, handlers, self._access, self._seconds, self._admission)
        self.config.app = handler if self._around is None else self._around(handler)

    def _add_exception_handlers(self, app: FastAPI) -> None:
        app.add_exception_handler(ModelNotFound, model_not_found_handler)
        app.add_exception_handler(ModelNotReady, model_not_ready_handler)
        app.add_exception_handler(ServerNotReady, server_not_ready_handler)
        # KServe raises it where a caller names a version of a model.
        app.add_exception_handler(NotImplementedError, _no_versions)

    def _add_middlewares(self, app: FastAPI) -> None:
        """None: KServe's would log three lines a request."""


async def _no_versions(_: Request, __: Exception) -> Response:
    error = InvalidRequest("cannot be asked for: the active price names the model", field="model_version")
    return error_response(error)


def decisions(method: str, path: str) -> Role | None:  # noqa: ARG001 - a RoleOf
    """Return the role that a call needs: deciding needs one; probes, metadata and metrics do not."""
    return "decide" if method == "POST" else None


async def predict_v1(model: CampaignModel, access: Access, body: bytes, caller: Caller) -> bytes:
    """``POST /v1/models/{name}:predict``."""
    metrics = model.when_ready().metrics
    with metrics.stage("total"):
        with metrics.stage("decode"):
            requests = decode_v1(parse_json(body), model.max_instances)
        answers = await model.predict(requests)
        access.charge(caller, answers.authorized)
        with metrics.stage("encode"):
            return orjson.dumps(encode_v1(answers))


async def explain_v1(model: CampaignModel, body: bytes, _: Caller) -> bytes:
    """``POST /v1/models/{name}:explain``: why each request would get what it would get; nothing is authorized."""
    predictor = model.when_ready()
    explanations, active, degraded = await predictor.explain(decode_v1(parse_json(body), model.max_instances))
    price = active.price
    return orjson.dumps(
        {
            "explanations": explanations,
            "prices": dict(price.prices),
            "tie_share": price.tie_share,
            "currency": predictor.campaign.currency,
            "price_version": price.version,
            "model_version": active.model.version,
            "price_age_seconds": (predictor.clock() - price.solved_at).total_seconds(),
            "degraded": degraded,
        }
    )


async def infer_v2(model: CampaignModel, access: Access, body: bytes, caller: Caller) -> bytes:
    """``POST /v2/models/{name}/infer``."""
    metrics = model.when_ready().metrics
    with metrics.stage("total"):
        with metrics.stage("decode"):
            content = parse_json(body)
            requests = decode_v2(content, model.max_instances)
            name, outputs = request_name(content), requested_outputs(content)
        answers = await model.predict(requests)
        access.charge(caller, answers.authorized)
        with metrics.stage("encode"):
            return orjson.dumps(encode_v2(answers, model.name, name, outputs), option=orjson.OPT_SERIALIZE_NUMPY)


class Around(NamedTuple):
    """Wrappers that all calls of a predictor pass.

    application  returns an application around that of all HTTP requests
    calls        interceptors of all gRPC calls
    """

    application: Callable[[Any], Any]
    calls: Sequence[Any]


class PredictorServer(ModelServer):  # type: ignore[misc]
    """KServe's model server of one process, with a model for each campaign, that serves before they are ready.

    grpc_port  None: no gRPC
    access     check of every call
    name       further name of the first model: KServe's graphs and clients call it as its InferenceService is called
    around     wrappers that all calls pass; None for none
    """

    def __init__(
        self,
        models: Sequence[CampaignModel],
        host: str,
        http_port: int,
        grpc_port: int | None = None,
        *,
        access: Access | None = None,
        seconds: float = REQUEST_SECONDS,
        name: str = "",
        around: Around | None = None,
    ) -> None:
        super().__init__(http_port=http_port, workers=1, enable_grpc=False, enable_latency_logging=False)
        for model in models:
            self.register_model(model)
        if name:
            self.registered_models.update(models[0], name)
        self.dataplane = ReadyDataPlane(model_registry=self.registered_models)
        access, admission = access or Access(decisions), Admission()
        self._rest_server = ContractServer(
            "kserve.model_server:app",
            self.dataplane,
            self.model_repository_extension,
            http_port,
            grace_period=5,
            host=host,
            access=access,
            admission=admission,
            seconds=seconds,
            around=None if around is None else around.application,
        )
        self._grpc = None
        if grpc_port is not None:
            self._grpc = GrpcServer(
                self.dataplane,
                self.model_repository_extension,
                f"{host}:{grpc_port}",
                access=access,
                admission=admission,
                seconds=seconds,
                before=() if around is None else around.calls,
            )

    def beat(self) -> float:
        """Return the monotonic time at which the event loop was seen running; 0 before."""
        seen: float = self._rest_server.beat
        return seen

    def check_ready(self) -> dict[str, Any]:
        """Return what readiness says, or raise ``Unavailable``."""
        if not self.dataplane.ready_now():
            raise Unavailable("model, price and stores are still being read; the log says what is missing")
        models = self.dataplane.model_registry.get_models().values()
        return {"status": "ready", "campaigns": sorted({model.name for model in models})}

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        with asyncio.Runner(loop_factory=self._rest_server.config.get_loop_factory()) as runner:
            runner.run(self._serve_both())

    async def _serve_both(self) -> None:
        if self._grpc is not None:
            await self._grpc.start()
        try:
            await self._rest_server.start()
        finally:
            if self._grpc is not None:
                await self._grpc.stop()
