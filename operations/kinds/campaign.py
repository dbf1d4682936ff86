"""Campaigns: labeled requests of customers and merchants at several levels of an incentive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from operations.common.workspace import CAMPAIGN, MODEL, read_campaign
from operations.evaluate import EvaluateJob
from operations.kinds.base import Kind
from operations.solve import Solved, SolveJob
from operations.train import TrainJob
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.gate import limits_of
from shadowprice.evaluation.policy.mending import Override
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.recipes import Training
from shadowprice.reports.evaluation import evaluate_bundle
from shadowprice.responses.training import TrainingConfig


class CampaignKind(Kind):
    """Response models of rows: recipes, response layers and response models by name."""

    def train(self, job: TrainJob) -> Mapping[str, float]:
        """Fit a recipe, calibrate it, repair its curves and write its bundle; the campaign's policy decides which."""
        config = TrainingConfig(seed=job.seed, precision=job.precision, device=job.device)
        how = Training(job.recipe, job.curve_repair, job.calibration)
        if job.workspace is not None and (job.workspace / CAMPAIGN).exists():
            how = how.of_policy(read_campaign(job.workspace).policy)
        fit_bundle(
            job.training,
            job.model,
            how,
            replace(config, epochs=job.epochs) if job.epochs else config,
            workers=job.workers,
        )
        metrics = read_meta(job.model)["metrics"]
        return {name: metrics[name] for name in ("validation_loss", "epochs", "best_epoch")}

    def evaluate(self, job: EvaluateJob) -> tuple[bool, Mapping[str, float]]:
        """Compute metrics with intervals, calibration, response by level and the gate's verdict."""
        return evaluate_bundle(
            job.model,
            job.training,
            job.tables,
            out=job.evaluation,
            page=job.page,
            summary=job.summary,
            incumbent=job.workspace / MODEL if job.workspace and job.beat_incumbent else None,
            beat_uniform=job.beat_uniform,
            limits=limits_of(job.limits),
            override=Override.of(job.override),
            columns=job.workspace,
            worth=job.worth,
        )

    def solve(self, job: SolveJob) -> Solved:
        """Refuse: a campaign has traffic, and its model is registered before its first price."""
        raise InvalidInput(f"{job.model}: a campaign is priced from its state; measure first", field="state")
