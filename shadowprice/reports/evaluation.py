"""The evaluate step: a bundle judged on its test split, as a report's part, a page and a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.datasets.package import load_dataset
from shadowprice.evaluation.policy.gate import Requirements
from shadowprice.evaluation.policy.joint import AtBudget
from shadowprice.evaluation.policy.mending import Override
from shadowprice.evaluation.policy.worth import WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evidence.dropped import dropped
from shadowprice.evidence.sides import evidence_of
from shadowprice.files import write_whole
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.bundle import META, read_meta
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.comparison.vouchers import baselines
from shadowprice.learning.evaluate import Comparison, Evaluation, Facts, SideEvaluation, evaluate
from shadowprice.learning.training_set import TrainingSet, file_of, labeled
from shadowprice.learning.worth.find import FoundWorth
from shadowprice.pacing.history import fit_traffic
from shadowprice.progress import Stages
from shadowprice.reports.data import ReportData, SideReport
from shadowprice.reports.report import write_report
from shadowprice.reports.texts import evaluation_markdown, evaluation_metrics, unidentified
from shadowprice.reports.wording import estimate
from shadowprice.responses.sided import SidedModel, load_sided
from shadowprice.storage import from_json, to_json
from shadowprice.tables import campaign_from_tables

JUDGED_ACCOUNTS = 200_000
"""Accounts of each side that a model is judged on, at most: more would hardly shorten an interval."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Terms that a bundle is judged by.

    incumbent     bundle of the model in use, which must be beaten at the campaign's budget; None, or a folder without a
                  bundle, where there is none
    beat_uniform  whether a model without an incumbent must beat uniform dosing at the campaign's budget; if not, that
                  comparison is only reported
    limits        what the gate asks for
    override      decision of a person to use a model that the gate refuses
    columns       folder with the columns of accounts that conditions read; None: values are compared at the main budget
                  alone, without the rules
    worth         JSON of a :class:`~shadowprice.learning.worth.find.FoundWorth`; None where nothing was estimated
    """

    incumbent: Path | None = None
    beat_uniform: bool = True
    limits: Requirements | None = None
    override: Override | None = None
    columns: Path | None = None
    worth: Path | None = None


def evaluate_bundle(
    model: Path, training: Path, data: Path, judging: Judging, *, out: Path, page: Path, summary: Path
) -> tuple[bool, Mapping[str, float]]:
    """Evaluate the bundle in ``model`` and write what is found.

    Args:
        model: the bundle; training: the training set; data: the prepared data set.
        judging: terms that it is judged by.
        out: JSON of the report's part; page: the same as HTML; summary: as Markdown.

    Returns:
        Whether the model may be used, and one number per side and metric, the verdict, and where it was compared the
        gain in value over the model in use or uniform dosing with its interval. The repair of a model
        of sessions was fitted on these rows, and is left out.
    """
    with Stages("evaluate", 3) as stage:
        stage("load")
        dataset = load_dataset(data)
        meta = read_meta(model)
        inuse = judging.incumbent
        if inuse is not None and not (inuse / META).exists():
            inuse = None
        campaign = campaign_from_tables(dataset.tables, dataset.currency)
        rows = TrainingSet.load(training, JUDGED_ACCOUNTS)
        notes = [f"{name}: {text}" for name, text in dataset.notes.items()]
        for side, every in labeled(training).items():
            if (judged := len(rows.rows[side])) < every:
                notes.append(f"{side}: judged on {judged:,} of {every:,} rows, whole accounts drawn by name")
        asking = {side: frame["account_id"] for side, frame in rows.serving.items()}
        traffic = fit_traffic(campaign, dataset.tables, asking)
        expected = traffic.forecast(campaign).expected
        currency = Currency.of(dataset.currency)
        evidence = evidence_of(
            dataset.tables,
            campaign,
            currency,
            confounders=dataset.confounders,
            rows={side: file_of(training, "rows", side) for side in rows.rows},
            workspace=judging.columns,
        )
        judged_worth = FoundWorth() if judging.worth is None else from_json(FoundWorth, judging.worth.read_bytes())
        unclaimed = unidentified(evidence) or judged_worth.absent
        stage("compute metrics and compare")
        served = load_sided(model)
        bare = served if rows.inputs.sessions is None else served.unrepaired()
        evaluation = evaluate(
            bare,
            rows,
            facts=Facts(
                # The truth of an account is that of its latest session, and these are others.
                truth=None if dataset.sessions is not None else dataset.truth,
                confounders=dataset.confounders,
                evidence={side_evidence.side: side_evidence for side_evidence in evidence},
            ),
            window=CampaignWindow(
                campaign,
                requests={side: float(side_expected.sum()) for side, side_expected in expected.items()},
                coverage=None if judging.columns is None else campaign.coverage().reading(judging.columns),
                traffic=traffic,
            ),
            against=Comparison(
                incumbent=None if inuse is None else load_sided(inuse),
                required=judging.beat_uniform or inuse is not None,
                worth=judged_worth.worth,
            ),
            limits=judging.limits,
            corrections=meta["corrections"],
        )
        facts: dict[str, Mapping[str, str | int | float]] = {**dropped(dataset.tables, dataset.split).facts()}
        simulated = dataset.truth is not None
        sides = side_reports(evaluation, meta["recipe"], rows.offers, simulated=simulated, shown=evidence)
        if rows.inputs.sessions is not None:
            more, trees = _session_facts(bare, rows, campaign, float(expected["customer"].sum()), evaluation)
            facts |= more
            sides = tuple(replace(side_report, metrics={**side_report.metrics, **trees}) for side_report in sides)
        verdict = evaluation.gate.overridden(judging.override)
        if not verdict.accepted:
            unclaimed = unclaimed or "the gate refused the model, so nothing is claimed of its policy"
        stage("write the report")
        part = ReportData(
            title=f"Evaluation of {meta['model_version']}",
            dataset=dataset.name,
            created_at=datetime.now(UTC),
            simulated=simulated,
            currency=currency,
            facts=facts,
            evidence=evidence,
            sides=sides,
            gate=verdict,
            campaign=campaign,
            worth=judged_worth.worth,
            notes=tuple(notes),
            absent={"worth": unclaimed} if unclaimed else {},
        )
        write_whole(out, to_json(part))
        write_report(part, page)
        write_whole(summary, evaluation_markdown(part.sides, part.gate, part.currency, part.evidence))
        figures = evaluation_metrics(part.sides) | {"accepted": float(verdict.accepted)}
        if evaluation.value is not None and not isinstance(evaluation.value, str):
            gain = evaluation.value.flat if isinstance(evaluation.value, WorthAt) else evaluation.value.difference
            figures |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
        return verdict.accepted, figures


def _session_facts(
    model: SidedModel, rows: TrainingSet, campaign: Campaign, requests: float, found: Evaluation
) -> tuple[dict[str, dict[str, str]], dict[str, Mapping[str, Estimate]]]:
    """Facts of a report that set a model of sessions beside plain baselines, and the metrics of trees by their name."""
    curves = with_amounts(rows, model.curves(rows.inputs, rows.part("test")))["customer"]
    plain = baselines(curves, rows, campaign, requests)
    figures = {"best voucher for all": estimate(plain.one_voucher), "largest response first": estimate(plain.greedy)}
    if isinstance(found.value, AtBudget):
        own = {"this model at its price": found.value.candidate, "best mixture for all": found.value.rival}
        own["model less best mixture"] = found.value.difference
        figures = {name: estimate(value) for name, value in own.items()} | figures
    facts = {"Redemptions of the window at its budget, by held-out sessions": figures}
    if plain.auc_gain is not None:
        facts["Ranking of held-out sessions"] = {"AUC less that of trees": estimate(plain.auc_gain)}
    return facts, {"trees": plain.metrics} if plain.metrics else {}


def side_reports(
    found: Evaluation,
    recipe: str,
    offers: Mapping[Side, tuple[str, ...]],
    *,
    simulated: bool,
    shown: Sequence[SideEvidence] = (),
) -> tuple[SideReport, ...]:
    """An evaluation as the report shows it; ``offers`` name the levels that are no amounts.

    The slope of the evidence ``shown`` takes the place of that of all rows.
    """
    own = {side_evidence.side for side_evidence in shown if side_evidence.slope is not None}
    made = (
        _side_report(side, side_evaluation, recipe, offers.get(side, ()), simulated)
        for side, side_evaluation in found.sides.items()
    )
    return tuple(replace(report, slope=None) if report.side in own else report for report in made)


def _side_report(
    side: Side, found: SideEvaluation, recipe: str, offers: tuple[str, ...], simulated: bool
) -> SideReport:
    return SideReport(
        side=side,
        offers=offers,
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
