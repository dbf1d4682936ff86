"""Deliveries: every account gets one fund, and every fund exactly its number of accounts."""

from __future__ import annotations

from collections.abc import Mapping

from operations.common.workspace import PRICES, read_campaign
from operations.evaluate import EvaluateJob
from operations.kinds.base import Kind
from operations.solve import Solved, SolveJob
from operations.train import TrainJob
from shadowprice.checks import require
from shadowprice.datasets.package import load_dataset
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.delivery import learn_delivery
from shadowprice.learning.delivery_plan import deliver, metrics_of
from shadowprice.learning.distributed import ray_workers
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.price_store import PriceStore
from shadowprice.responses.funds.training import TRAINING


class DeliveryKind(Kind):
    """Models of funds, and plans of exact sizes."""

    def train(self, job: TrainJob) -> Mapping[str, float]:
        """Train a model of funds; the figures are those of the test split."""
        if job.tables is None or job.workspace is None:
            raise InvalidInput("a delivery is trained with its tables and its campaign", field="tables")
        recipe = job.recipe or "esdpm"
        data, tables = TrainingSet.load(job.training), load_dataset(job.tables).tables
        campaign = read_campaign(job.workspace)
        require(job.device == "cpu", "device", "must be cpu: no model of funds is written for a GPU")
        options = {"model": recipe, "loss": job.loss, "precision": job.precision}
        with ray_workers(job.model, workers=job.workers, label=recipe, epochs=job.epochs or TRAINING.epochs):
            found = learn_delivery(data, tables, campaign, job.model, epochs=job.epochs, seed=job.seed, **options)
        return found[1]

    def evaluate(self, job: EvaluateJob) -> tuple[bool, Mapping[str, float]]:
        """Return the figures of the test split, which training stored; the plan's certificate is the gate."""
        return True, read_meta(job.model)["metrics"]

    def solve(self, job: SolveJob) -> Solved:
        """Plan the delivery and write the plan; its prices are those of a place in each segment.

        Raises:
            NotCertified: there is no plan, or its audit finds a fault.
        """
        if job.model is None or job.tables is None:
            raise InvalidInput("a delivery is planned with its tables", field="tables")
        campaign = read_campaign(job.workspace)
        version = PriceStore(job.workspace / PRICES).next_version(campaign.name)
        plan, record = deliver(job.model, load_dataset(job.tables).tables, campaign, job.price, version=version)
        return Solved(record, metrics_of(plan), plan.markdown())
