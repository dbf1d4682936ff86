import pytest
from local_ledger import Asked, Fixed, LocalLedger, TableReader
from prometheus_client import CollectorRegistry

from serving.predictor.active import Active, ServedModel
from serving.predictor.features import Features
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.predictor import Predictor
from shadowprice.campaign import SIDES


@pytest.fixture
def build(campaign, heads, kit):
    def build(*, terms=None, reader=None, price=None, ledger=None, **options):
        own = terms or campaign
        # The campaign's day is in the past.
        options.setdefault("window", False)
        registry = CollectorRegistry()
        predictor = Predictor(
            campaign=own,
            source=Fixed(
                Active(
                    price or kit.price(),
                    ServedModel(
                        "test-model-1",
                        heads,
                        Features(
                            reader or TableReader(kit.embeddings()),
                            {side: heads[side].default_embedding for side in SIDES},
                        ),
                    ),
                )
            ),
            ledger=ledger or LocalLedger(own),
            metrics=PredictorMetrics(own, registry),
            **options,
        )
        return Asked(predictor), registry

    return build
