"""Step 4: judge the model on the test split and decide whether it may be used."""

from kfp import dsl
from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def evaluate(
    model: Input[Model],
    training: Input[Dataset],
    tables: Input[Dataset],
    metrics: Output[Metrics],
    page: Output[HTML],
    summary: Output[Markdown],
    evaluation: Output[Artifact],
    workspace: str = "",
    beat_incumbent: bool = True,
    beat_uniform: bool = True,
) -> bool:
    """Metrics with intervals, calibration before and after, response and hazard by level, change points, the gate.

    Args:
        model: from the train step.
        training: from the featurize step; its test split is used.
        tables: from the prepare step, for the truth where it is known.
        metrics: one number per side and metric.
        page: figures.
        summary: the gate's verdict and the metrics with their intervals.
        evaluation: everything, for the report of the run.
        workspace: folder that outlives the run; the model in use is in it.
        beat_incumbent: whether that model must be beaten in value at the campaign's budget.
        beat_uniform: whether uniform dosing must be beaten there where that model is not compared with; if not, the
            comparison is only reported.

    Returns:
        Whether the gate is passed.
    """
    from pathlib import Path

    from shadowprice.reports.evaluation import evaluate_bundle

    return evaluate_bundle(
        Path(model.path),
        Path(training.path),
        Path(tables.path),
        out=Path(evaluation.path),
        page=Path(page.path),
        summary=Path(summary.path),
        log=metrics.log_metric,
        incumbent=Path(workspace) / "model" if workspace and beat_incumbent else None,
        beat_uniform=beat_uniform,
    )
