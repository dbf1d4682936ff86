"""Voucher sessions: people who collect vouchers, what they do around it, and who redeems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from operations.common.workspace import CAMPAIGN, PRICES
from operations.evaluate import EvaluateJob
from operations.kinds.base import Kind
from operations.solve import Solved, SolveJob
from operations.train import TrainJob
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.learning import vouchers
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.learning.distributed import ray_workers
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.resolve import resolve
from shadowprice.pacing.spend import SpendReport
from shadowprice.responses.layers.heads import load_heads
from shadowprice.responses.registry import model_class

HOURS = 24
EPOCHS = 30


class VouchersKind(Kind):
    """Models of sessions, whose curves are stored before they are served."""

    def train(self, job: TrainJob) -> Mapping[str, float]:
        """Pre-train vouchers and graph network on the training sessions, where the model has them, then tune."""
        recipe, epochs = job.recipe or "dmbgn", job.epochs or EPOCHS
        workers = job.workers if model_class(recipe).by_gradient else 0
        require(job.device == "cpu", "device", "must be cpu: no model of vouchers is written for a GPU")
        with ray_workers(job.model, workers=workers, label=recipe, epochs=epochs):
            tables, options = _sessions(job.tables), {"precision": job.precision}
            return vouchers.train(tables, job.training, job.model, recipe, epochs, job.seed, **options)

    def evaluate(self, job: EvaluateJob) -> tuple[bool, Mapping[str, float]]:
        """Judge by the sessions after the test's beginning: the model must rank better than chance."""
        found = vouchers.evaluate(job.tables, job.training, job.model)
        rows = [f"| {name} | {value:.6g} |" for name, value in found.items()]
        write_whole(job.summary, "\n".join(["| metric | value |", "|---|---|", *rows, ""]))
        return found["auc"] > 0.5, found

    def solve(self, job: SolveJob) -> Solved:
        """Price the budget over the people in the bundle, and write the campaign that starts with this price.

        A voucher costs its discount, on redemption.

        Raises:
            NotCertified: as the hourly re-solve does.
        """
        assert job.model is not None
        heads = load_heads(job.model)
        now = datetime.now(UTC)
        levels = tuple(heads["customer"].levels.tolist())
        campaign = Campaign(
            name=job.campaign,
            sides={"customer": Terms(levels=levels, cost_basis="on_response")},
            budget=Budget(form="total", limit=job.budget),
            starts_at=now.replace(minute=0, second=0, microsecond=0),
            hours=HOURS,
        )
        stored = np.array(pd.read_parquet(job.model / EMBEDDINGS)["embedding"].tolist(), dtype=np.float32)
        found = resolve(
            campaign,
            {"customer": Curves(heads["customer"].levels, heads["customer"].response(stored))},
            {"customer": np.full(HOURS, job.requests / HOURS)},
            SpendReport(spent=0, responses={}, requests={}, observed_at=now),
            slot=0,
            version=PriceStore(job.workspace / PRICES).next_version(job.campaign),
            model_version=str(read_meta(job.model)["model_version"]),
            now=now,
        )
        write_whole(job.price / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
        return Solved(found.record)


def _sessions(tables: Path | None) -> Path:
    if tables is None:
        raise InvalidInput("voucher sessions are trained with their tables", field="tables")
    return tables
