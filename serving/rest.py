"""KServe's server with the endpoints of the contract and nothing else.

KServe's own handlers for prediction parse a body twice, answer some malformed bodies with 500, and
stand beside endpoints that let any caller unload the model. So the two prediction endpoints are
written here, on KServe's application, data plane and health endpoints.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

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
from kserve.protocol.rest.v2_endpoints import V2Endpoints
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.protocol import decode_v1, decode_v2, encode_v1, encode_v2, request_name
from serving.web import answering, json_response, parse_json, read_body
from shadowprice.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from serving.model import CampaignModel


class ReadyDataPlane(DataPlane):  # type: ignore[misc]
    """KServe's data plane, whose server is ready when its models are; KServe's own is ready at once."""

    async def ready(self) -> bool:
        """Whether every model is ready."""
        return all([await model.healthy() for model in self.model_registry.get_models().values()])


class ContractServer(RESTServer):  # type: ignore[misc]
    """KServe's REST server with the endpoints of the contract, without timing and access logs."""

    def listen_on(self, host: str) -> None:
        """Listen on one address instead of all."""
        self.config.host = host
        self.config.access_log = False

    def _register_endpoints(self, app: FastAPI) -> None:
        v1, v2 = V1Endpoints(self.dataplane), V2Endpoints(self.dataplane)
        router = APIRouter()
        router.add_api_route("/", self.dataplane.live)
        router.add_api_route("/metrics", metrics_handler)
        router.add_api_route("/v1/models", v1.models)
        router.add_api_route("/v1/models/{model_name}", v1.model_ready)
        router.add_api_route("/v2", v2.metadata)
        router.add_api_route("/v2/health/live", v2.live)
        router.add_api_route("/v2/health/ready", v2.ready)
        router.add_api_route("/v2/models", v2.models)
        router.add_api_route("/v2/models/{model_name}", v2.model_metadata)
        router.add_api_route("/v2/models/{model_name}/ready", v2.model_ready)
        app.include_router(router)
        app.router.routes[:0] = [
            Route("/v1/models/{model_name}:predict", answering(self._predict_v1), methods=["POST"]),
            Route("/v2/models/{model_name}/infer", answering(self._infer_v2), methods=["POST"]),
        ]

    def _add_exception_handlers(self, app: FastAPI) -> None:
        app.add_exception_handler(ModelNotFound, model_not_found_handler)
        app.add_exception_handler(ModelNotReady, model_not_ready_handler)
        app.add_exception_handler(ServerNotReady, server_not_ready_handler)

    def _add_middlewares(self, app: FastAPI) -> None:
        """None: KServe's would log three lines a request."""

    async def _predict_v1(self, request: Request) -> Response:
        model = self._model(request)
        metrics = model.predictor.metrics
        with metrics.stage("total"):
            body = await read_body(request)
            with metrics.stage("decode"):
                requests = decode_v1(parse_json(body), model.max_instances)
            answers, _ = await self.dataplane.infer(model.name, requests)
            with metrics.stage("encode"):
                return json_response(encode_v1(answers))

    async def _infer_v2(self, request: Request) -> Response:
        model = self._model(request)
        metrics = model.predictor.metrics
        with metrics.stage("total"):
            body = await read_body(request)
            with metrics.stage("decode"):
                content = parse_json(body)
                requests = decode_v2(content, model.max_instances)
                name = request_name(content)
            answers, _ = await self.dataplane.infer(model.name, requests)
            with metrics.stage("encode"):
                return json_response(encode_v2(answers, model.name, name))

    def _model(self, request: Request) -> CampaignModel:
        name = request.path_params["model_name"]
        model: CampaignModel | None = self.dataplane.model_registry.get_model(name)
        if model is None:
            known = sorted(self.dataplane.model_registry.get_models())
            raise NotFound(f"model {name!r} does not exist; this service decides for {known}")
        if not model.ready:
            raise Unavailable(f"model {name!r} is not ready: model, price and stores are still being read")
        return model


class PredictorServer(ModelServer):  # type: ignore[misc]
    """KServe's model server for one campaign, in one process, that serves before its model is ready."""

    def __init__(self, model: CampaignModel, host: str, http_port: int) -> None:
        super().__init__(http_port=http_port, workers=1, enable_grpc=False, enable_latency_logging=False)
        self.register_model(model)
        self.dataplane = ReadyDataPlane(model_registry=self.registered_models)
        self._rest_server = ContractServer(
            "kserve.model_server:app",
            self.dataplane,
            self.model_repository_extension,
            http_port,
            grace_period=5,
        )
        self._rest_server.listen_on(host)

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        with asyncio.Runner(loop_factory=self._rest_server.config.get_loop_factory()) as runner:
            runner.run(self._rest_server.start())
