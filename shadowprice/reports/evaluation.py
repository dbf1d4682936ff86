"""The evaluate step: a bundle judged on its test split, as a report's part, a page and a text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from shadowprice.campaign import Side
from shadowprice.currency import Currency
from shadowprice.datasets.package import load_dataset
from shadowprice.evaluation.policy.gate import Limits
from shadowprice.evaluation.policy.mending import Override
from shadowprice.files import write_whole
from shadowprice.learning.bundle import META, read_meta
from shadowprice.learning.evaluate import Evaluation, SideEvaluation, evaluate
from shadowprice.learning.training_set import TrainingSet, labelled
from shadowprice.pacing.history import fit_traffic
from shadowprice.progress import Stages
from shadowprice.reports.data import ReportData, SideReport
from shadowprice.reports.report import write_report
from shadowprice.reports.texts import evaluation_markdown, evaluation_metrics
from shadowprice.responses.sided import load_sided
from shadowprice.storage import to_json
from shadowprice.tables import campaign_from_tables

JUDGED_ACCOUNTS = 200_000
"""Accounts of each side that a model is judged on, at most: more would make no interval shorter that anyone reads."""


def evaluate_bundle(
    model: Path,
    training: Path,
    data: Path,
    *,
    out: Path,
    page: Path,
    summary: Path,
    incumbent: Path | None = None,
    beat_uniform: bool = True,
    limits: Limits | None = None,
    override: Override | None = None,
    columns: Path | None = None,
) -> tuple[bool, Mapping[str, float]]:
    """Evaluate the bundle in ``model`` and write what is found.

    Args:
        model: the bundle; training: the training set; data: the prepared data set.
        out: JSON of the report's part; page: the same as HTML; summary: as Markdown.
        incumbent: bundle of the model in use, which must be beaten at the campaign's budget; None, or a folder
            without a bundle, where there is none.
        beat_uniform: whether a model without an incumbent must beat uniform dosing at the campaign's budget; if not,
            that comparison is only reported.
        limits: what the gate asks for.
        override: decision of a person to use a model that the gate refuses.
        columns: folder with the columns of accounts that conditions read; None: values are compared at the main budget
            alone, without the rules.

    Returns:
        Whether the model may be used, and one number per side and metric.
    """
    with Stages("evaluate", 3) as stage:
        stage("load")
        dataset = load_dataset(data)
        meta = read_meta(model)
        inuse = incumbent if incumbent is not None and (incumbent / META).exists() else None
        campaign = campaign_from_tables(dataset.tables, dataset.currency)
        rows = TrainingSet.load(training, JUDGED_ACCOUNTS)
        notes = [f"{name}: {text}" for name, text in dataset.notes.items()]
        for side, every in labelled(training).items():
            if (judged := len(rows.rows[side])) < every:
                notes.append(f"{side}: judged on {judged:,} of {every:,} rows, whole accounts drawn by name")
        served = {side: frame["account_id"] for side, frame in rows.serving.items()}
        traffic = fit_traffic(campaign, dataset.tables, served)
        expected = traffic.forecast(campaign).expected
        stage("compute metrics and compare")
        found = evaluate(
            load_sided(model),
            rows,
            truth=dataset.truth,
            corrections=meta["corrections"],
            confounders=dataset.confounders,
            incumbent=None if inuse is None else load_sided(inuse),
            campaign=campaign,
            value_required=beat_uniform or inuse is not None,
            requests={side: float(each.sum()) for side, each in expected.items()},
            limits=limits,
            coverage=None if columns is None else campaign.coverage().reading(columns),
            traffic=traffic,
        )
        verdict = found.gate.overridden(override)
        stage("write the report")
        part = ReportData(
            title=f"Evaluation of {meta['model_version']}",
            dataset=dataset.name,
            created_at=datetime.now(UTC),
            simulated=dataset.truth is not None,
            currency=Currency.of(dataset.currency),
            sides=side_reports(found, meta["recipe"], simulated=dataset.truth is not None),
            gate=verdict,
            notes=tuple(notes),
        )
        write_whole(out, to_json(part))
        write_report(part, page)
        write_whole(summary, evaluation_markdown(part.sides, part.gate, part.currency))
        return verdict.accepted, evaluation_metrics(part.sides)


def side_reports(found: Evaluation, recipe: str, *, simulated: bool) -> tuple[SideReport, ...]:
    """An evaluation as the report shows it."""
    return tuple(_side_report(side, each, recipe, simulated) for side, each in found.sides.items())


def _side_report(side: Side, found: SideEvaluation, recipe: str, simulated: bool) -> SideReport:
    return SideReport(
        side=side,
        metrics={recipe: found.metrics},
        levels=found.by_level,
        hazard=found.change_points,
        model_hazard=found.hazard,
        true_hazard=found.true_hazard,
        calibration=found.reliability if found.uncorrected is None else found.uncorrected,
        repaired=None if found.uncorrected is None else found.reliability,
        slope=found.data_slope,
        model_slope=found.curve_slope,
        simulated=simulated,
    )
