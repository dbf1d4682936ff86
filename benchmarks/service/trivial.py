"""``python -m benchmarks.service.trivial PORT GRPC_PORT``: KServe itself, answering constants.

The same process set-up as the decision service has: one worker, quiet logs, the garbage collector frozen. KServe's own
endpoints, which every predictor gets.
"""

import gc
import sys
from typing import Any

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

from serving.http.logs import quiet_logs
from serving.protocol import OUTPUTS

VALUES: dict[str, Any] = {
    "incentive": 80,
    "level": 2,
    "offer_id": "customer-80",
    "response": 0.25,
    "expected_cost": 20.0,
    "propensity": 1.0,
    "reason": "optimal",
    "repeat": False,
    "price_version": 1,
    "model_version": "model",
    "arm": "policy",
    "limited_by": "",
}
"""Value of each of :data:`~serving.protocol.OUTPUTS`."""


class Trivial(Model):  # type: ignore[misc]
    """Gives every request the same answer."""

    def load(self) -> bool:
        self.ready = True
        return True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:  # noqa: ARG002
        if isinstance(payload, InferRequest):
            rows = payload.inputs[0].shape[0]
            outputs = [
                InferOutput(name=name, datatype=kind, shape=[rows], data=[VALUES[name]] * rows)
                for name, kind in OUTPUTS.items()
            ]
            return InferResponse(response_id="1", model_name=self.name, infer_outputs=outputs)
        return {"predictions": [VALUES] * len(payload["instances"])}


def main() -> None:
    quiet_logs()
    model = Trivial("spring")
    model.load()
    server = ModelServer(
        http_port=int(sys.argv[1]), grpc_port=int(sys.argv[2]), workers=1, enable_latency_logging=False
    )
    gc.collect()
    gc.freeze()
    server.start([model])


if __name__ == "__main__":
    main()
