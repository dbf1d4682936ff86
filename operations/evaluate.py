"""Judge a model on its test split and decide whether it may be used."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations.common.job import Job, option, reads, write_figures, writes
from operations.common.workspace import MODEL
from shadowprice.evaluation.policy.gate import limits_of
from shadowprice.evaluation.policy.mending import Override


@dataclass(frozen=True, kw_only=True)
class EvaluateJob(Job):
    """Compute metrics with intervals and apply the gate."""

    model: Path = reads("folder of the model")
    training: Path = reads("folder of the training set; its test split is used")
    tables: Path = reads("folder of the prepared tables, for the truth where it is known")
    worth: Path | None = reads("JSON of the worth job, for the page", optional=True)
    figures: Path | None = writes("file with one number per side and metric, the gain and the verdict", optional=True)
    page: Path = writes("HTML page with figures")
    summary: Path = writes("Markdown text with the gate's verdict and the metrics")
    evaluation: Path = writes("JSON of the report's part")
    workspace: Path | None = option(None, "folder that outlives the run; the model in use is in it")
    beat_incumbent: bool = option(True, "whether the model in use must be beaten in value at the campaign's budget")
    beat_uniform: bool = option(True, "refuse a model that does not beat uniform dosing at the campaign's budget")
    limits: Mapping[str, Any] = option({}, "other limits of the gate, as JSON: auc_floor, ece_share, value_margin, …")
    override: Mapping[str, Any] = option({}, 'JSON {"reason": "…", "by": "…"}: use a model that the gate refuses')


def run(job: EvaluateJob) -> bool:
    """Write the evaluation and return whether the model may be used: the gate is passed, or overridden.

    Raises:
        InvalidInput: limits or an override that cannot be, or limits for a model of segments.
    """
    # Imported here: compiling a pipeline reads the fields of this job, and needs none of what the job needs.
    from shadowprice.reports.evaluation import Judging, evaluate_bundle

    judging = Judging(
        incumbent=job.workspace / MODEL if job.workspace and job.beat_incumbent else None,
        beat_uniform=job.beat_uniform,
        limits=limits_of(job.limits),
        override=Override.of(job.override),
        columns=job.workspace,
        worth=job.worth,
    )
    written = {"out": job.evaluation, "page": job.page, "summary": job.summary}
    passed, figures = evaluate_bundle(job.model, job.training, job.tables, judging, **written)
    write_figures(job.figures, figures)
    return passed
