"""The predictor as a KServe model."""

from typing import Any

import kserve

from serving.http.limits import MAX_ITEMS
from serving.predictor.batching import MicroBatcher
from serving.predictor.context import context_names
from serving.predictor.predictor import Predictor
from serving.protocol import ACCEPTED, OUTPUTS, Answers, Requests, type_of
from shadowprice.errors import Unavailable


class CampaignModel(kserve.Model):  # type: ignore[misc]
    """One campaign under KServe. It becomes ready when everything it depends on is warm, not before.

    ``waits`` is true where something it depends on was missing.
    """

    predictor: Predictor
    batcher: MicroBatcher

    def __init__(self, campaign: str, max_instances: int) -> None:
        super().__init__(campaign)
        self.max_instances = max_instances
        self.waits = False

    def become_ready(self, predictor: Predictor) -> None:
        """Answer with this predictor from now on."""
        self.predictor = predictor
        self.batcher = MicroBatcher(predictor.answer_all, MAX_ITEMS)
        self.ready = True

    def when_ready(self) -> Predictor:
        """The predictor, or :class:`Unavailable` while everything it depends on is still being read."""
        if not self.ready:
            raise Unavailable(f"model {self.name!r} is not ready: model, price and stores are still being read")
        return self.predictor

    def load(self) -> bool:
        """Do nothing: the warm-up alone makes the model ready."""
        return bool(self.ready)

    def validate(self, payload: Requests) -> Requests:
        """Do nothing: the protocol was checked when the body was decoded."""
        return payload

    async def predict(
        self,
        payload: Requests,
        headers: dict[str, str] | None = None,  # noqa: ARG002 - KServe calls with two arguments
        response_headers: dict[str, str] | None = None,  # noqa: ARG002
    ) -> Answers:
        """Answer together with the other calls that wait."""
        return await self.batcher.answer(payload)

    def get_input_types(self) -> list[dict[str, Any]]:
        """Inputs for the V2 metadata: those of every model, and the context that the active one reads."""
        active = self.predictor.source.current if self.ready else None
        context = [] if active is None else context_names(active.model)
        return [{"name": name, "datatype": type_of(name, "inputs"), "shape": [-1]} for name in (*ACCEPTED, *context)]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Outputs for the V2 metadata."""
        return [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in OUTPUTS.items()]
