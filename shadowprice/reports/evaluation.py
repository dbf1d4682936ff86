"""The evaluate step: a bundle judged on its test split, as a report's part, a page and a text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from shadowprice.campaign import Campaign, Side
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.datasets.package import load_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.evaluation.policy.gate import Requirements
from shadowprice.evaluation.policy.joint import AtBudget
from shadowprice.evaluation.policy.mending import Override
from shadowprice.evaluation.policy.worth import WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.long_term import LongTermFigures
from shadowprice.evidence.dropped import dropped
from shadowprice.evidence.sides import evidence_of
from shadowprice.files import write_whole
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.bundle import META, POSTERIOR, read_meta
from shadowprice.learning.comparison.spend import spend_of_model, unseen_splits
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.comparison.vouchers import baselines
from shadowprice.learning.delivery_value import plan_value, read_values
from shadowprice.learning.evaluate import Comparison, Evaluation, Facts, evaluate
from shadowprice.learning.side_evaluation import SideEvaluation
from shadowprice.learning.training_set import TrainingSet, file_of, labeled
from shadowprice.learning.worth.find import FoundWorth
from shadowprice.pacing.history import Traffic, fit_traffic
from shadowprice.progress import Stages
from shadowprice.reports.data import ReportData, SideReport
from shadowprice.reports.report import write_report
from shadowprice.reports.texts import evaluation_markdown, evaluation_metrics, unidentified
from shadowprice.reports.wording import estimate
from shadowprice.responses.sided import SidedModel, load_sided
from shadowprice.storage import from_json, to_json
from shadowprice.tables import campaign_from_tables
from shadowprice.tables.database import Source

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """Bundle to judge, and everything that it is judged by.

    folder, training  where the bundle and the training set are
    unseen            splits of the training set that the model has not learned from
    truth             the true expected response of each row's account, where it is known
    campaign          that the tables describe
    part              the report as far as every judge writes it
    """

    folder: Path
    training: Path
    model: SidedModel
    recipe: str
    corrections: Mapping[Side, float]
    unseen: tuple[str, ...]
    dataset: Dataset
    rows: TrainingSet
    truth: Source | None
    campaign: Campaign
    part: ReportData

    @cached_property
    def traffic(self) -> Traffic:
        """Requests of the past."""
        asking = {side: frame["account_id"] for side, frame in self.rows.serving.items()}
        return fit_traffic(self.campaign, self.dataset.tables, asking)

    @cached_property
    def requests(self) -> dict[Side, float]:
        """Requests of each side that the window expects."""
        expected = self.traffic.forecast(self.campaign).expected
        return {side: float(of_side.sum()) for side, of_side in expected.items()}


def evaluate_bundle(
    model: Path, training: Path, data: Path, judging: Judging, *, out: Path, page: Path, summary: Path
) -> tuple[bool, Mapping[str, float]]:
    """Evaluate the bundle in ``model`` by the judge of its data set, and write the report.

    Args:
        model: the bundle; training: the training set; data: the prepared data set.
        judging: terms that it is judged by.
        out: JSON of the report's part; page: the same as HTML; summary: as Markdown.

    Returns:
        Whether the model may be used, and one number for each figure of its judge.
    """
    with Stages("evaluate", 3) as stage:
        stage("load")
        dataset, meta = load_dataset(data), read_meta(model)
        rows = TrainingSet.load(training, JUDGED_ACCOUNTS)
        notes = [f"{name}: {text}" for name, text in dataset.notes.items()]
        for side, every in labeled(training).items():
            if (judged := len(rows.rows[side])) < every:
                notes.append(f"{side}: judged on {judged:,} of {every:,} rows, whole accounts drawn by name")
        campaign = campaign_from_tables(dataset.tables, dataset.currency)
        served = load_sided(model)
        subject = Subject(
            folder=model,
            training=training,
            model=served,
            recipe=meta["recipe"],
            corrections=meta["corrections"],
            unseen=unseen_splits(served, rows.inputs.about, stopped=POSTERIOR in meta),
            dataset=dataset,
            rows=rows,
            truth=dataset.truth,
            campaign=campaign,
            part=ReportData(
                title=f"Evaluation of {meta['model_version']}",
                dataset=dataset.name,
                created_at=datetime.now(UTC),
                simulated=dataset.truth is not None,
                currency=Currency.of(dataset.currency),
                campaign=campaign,
                notes=tuple(notes),
            ),
        )
        stage("compute metrics and compare")
        part, text, figures = JUDGES[rows.inputs.about](subject, judging)
        stage("write the report")
        write_whole(out, to_json(part))
        write_report(part, page)
        write_whole(summary, text)
        assert part.gate is not None
        return part.gate.accepted, figures


Verdict = tuple[ReportData, str, Mapping[str, float]]
"""The report, a Markdown text, and one number for each figure."""


def judge_requests(subject: Subject, judging: Judging) -> Verdict:
    """Judge curves of labeled requests by metrics, and by their value against the model in use or uniform dosing."""
    return _told(*_judged(subject, judging))


def judge_sessions(subject: Subject, judging: Judging) -> Verdict:
    """Judge curves of sessions as those of requests, beside plain baselines.

    The repair was fitted on these rows and is left out. The truth of an account is that of its latest session, and
    these are others.
    """
    bare = replace(subject, model=subject.model.unrepaired(), truth=None)
    part, found = _judged(bare, judging)
    facts, trees = _session_facts(bare, found)
    sides = tuple(replace(report, metrics={**report.metrics, **trees}) for report in part.sides)
    return _told(replace(part, facts={**part.facts, **facts}, sides=sides), found)


def judge_plan(subject: Subject, judging: Judging) -> Verdict:
    """Judge values of segments by what their plan brings on held-out deliveries."""
    require(judging.limits in (None, Requirements()), "limits", "models of segments have none: their plan is judged")
    rows, currency = subject.rows, subject.part.currency
    (side,) = rows.rows
    held_out, learned = (rows.part(*splits)[side] for splits in (("test",), ("train", "validation")))
    measured = plan_value(*read_values(subject.folder), subject.campaign.segments, held_out, learned)
    predictions = subject.model.figures(rows.inputs, {side: held_out})
    gate = measured.gate(currency).overridden(judging.override)
    values = measured.facts(currency)
    part = replace(
        subject.part,
        facts={"Value of an account": values, "Predictions on held-out deliveries": predictions},
        gate=gate,
    )
    lines = [f"| {name} | {shown} |" for name, shown in values.items()]
    lines += [f"| {name} | {figure:.6g} |" for name, figure in predictions.items()]
    text = "\n".join([str(gate), "", "| an account | |", "|---|---|", *lines, ""])
    return part, text, {**measured.figures, **predictions}


JUDGES: Mapping[str, Callable[[Subject, Judging], Verdict]] = {
    "": judge_requests,
    "sessions": judge_sessions,
    "segments": judge_plan,
}
"""Judge of a model by the input that its rows are about (:attr:`Inputs.about`)."""


def _judged(subject: Subject, judging: Judging) -> tuple[ReportData, Evaluation]:
    dataset, campaign, rows, currency = subject.dataset, subject.campaign, subject.rows, subject.part.currency
    inuse = judging.incumbent
    if inuse is not None and not (inuse / META).exists():
        inuse = None
    evidence = evidence_of(
        dataset.tables,
        campaign,
        currency,
        confounders=dataset.confounders,
        rows={side: file_of(subject.training, "rows", side) for side in rows.rows},
        workspace=judging.columns,
    )
    coverage = None if judging.columns is None else campaign.coverage().reading(judging.columns)
    worth = FoundWorth() if judging.worth is None else from_json(FoundWorth, judging.worth.read_bytes())
    unclaimed = unidentified(evidence) or worth.absent
    evaluation = evaluate(
        subject.model,
        rows,
        facts=Facts(
            truth=subject.truth,
            confounders=dataset.confounders,
            evidence={shown.side: shown for shown in evidence},
        ),
        window=CampaignWindow(
            campaign,
            requests=subject.requests,
            coverage=coverage,
            traffic=subject.traffic,
        ),
        against=Comparison(
            incumbent=None if inuse is None else load_sided(inuse),
            required=judging.beat_uniform or inuse is not None,
            worth=worth.worth,
        ),
        limits=judging.limits,
        corrections=subject.corrections,
    )
    verdict = evaluation.gate.overridden(judging.override)
    if not verdict.accepted:
        unclaimed = unclaimed or "the gate refused the model, so nothing is claimed of its policy"
    sides = side_reports(evaluation, subject.recipe, rows.offers, simulated=dataset.truth is not None, shown=evidence)
    part = replace(
        subject.part,
        facts=dict(dropped(dataset.tables, dataset.split).facts()),
        evidence=evidence,
        sides=tuple(_by_index(report, subject) for report in sides),
        gate=verdict,
        spend=spend_of_model(subject.model, rows, campaign, coverage, subject.unseen),
        worth=worth.worth,
        absent={"worth": unclaimed} if unclaimed else {},
    )
    return part, evaluation


def _by_index(report: SideReport, subject: Subject) -> SideReport:
    """Return the report of a side with sentences on the index that its amounts are."""
    if report.side != "customer" or not subject.rows.long_term:
        return report
    currency = Currency.of(subject.dataset.currency)
    found = LongTermFigures.from_dict(subject.rows.long_term)
    return replace(
        report, long_term=tuple(found.sentences(subject.campaign.terms("customer").names(currency), currency))
    )


def _told(part: ReportData, found: Evaluation) -> Verdict:
    """Return the report with its text, metrics of each side, verdict, and where it was compared the gain in value."""
    assert part.gate is not None
    figures = evaluation_metrics(part.sides) | {"accepted": float(part.gate.accepted)}
    if found.value is not None and not isinstance(found.value, str):
        gain = found.value.flat if isinstance(found.value, WorthAt) else found.value.difference
        figures |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
    return part, evaluation_markdown(part.sides, part.gate, part.currency, part.evidence), figures


def _session_facts(
    subject: Subject, found: Evaluation
) -> tuple[dict[str, dict[str, str]], dict[str, Mapping[str, Estimate]]]:
    """Facts of a report that set a model of sessions beside plain baselines, and the metrics of trees by their name."""
    rows = subject.rows
    curves = with_amounts(rows, subject.model.curves(rows.inputs, rows.part("test")))["customer"]
    plain = baselines(curves, rows, subject.campaign, subject.requests["customer"])
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
    own = {evidence.side for evidence in shown if evidence.slope is not None}
    made = (
        _side_report(side, of_side, recipe, offers.get(side, ()), simulated) for side, of_side in found.sides.items()
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
        amounts=found.amounts,
        slope=found.data_slope,
        model_slope=found.curve_slope,
        simulated=simulated,
    )
