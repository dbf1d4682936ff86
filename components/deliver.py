"""Delivery, step 4: give every account one fund, exactly as many as each was promised."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Markdown, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def deliver(
    model: Input[Model],
    tables: Input[Dataset],
    plan: Output[Dataset],
    metrics: Output[Metrics],
    summary: Output[Markdown],
    workspace: str,
) -> None:
    """Solve the sizes exactly and audit them; fails when no certified plan exists, and nothing is registered.

    Args:
        model: from the step that learns.
        tables: from the prepare step: risk tolerances.
        plan: plan.parquet, plan.json and price.json.
        metrics: objective, gap, and the other methods against the exact one.
        summary: sizes, prices, audit and methods side by side.
        workspace: folder with the campaign and the prices.
    """
    from pathlib import Path

    from feature_repo.delivery import deliver as step

    text, found = step(Path(model.path), Path(tables.path), Path(workspace), Path(plan.path))
    Path(summary.path).write_text(text)
    for name, value in found.items():
        metrics.log_metric(name, value)
