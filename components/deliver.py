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
    ray_job: str = "",
) -> None:
    """Solve the sizes exactly and audit them; fails when no certified plan exists, and nothing is registered.

    Args:
        model: from the step that learns.
        tables: from the prepare step: risk tolerances.
        plan: plan.parquet, plan.json and price.json.
        metrics: objective, gap, and the other methods against the exact one.
        summary: sizes, prices, audit and methods side by side.
        workspace: folder with the campaign and the prices.
        ray_job: ConfigMap with the RayJob to solve in; empty solves in this container.
    """
    import json
    from pathlib import Path

    from components.ray_job import run_step

    run_step(
        "deliver",
        {
            "model": model.path,
            "tables": tables.path,
            "plan": plan.path,
            "figures": metrics.path,
            "summary": summary.path,
            "workspace": workspace,
        },
        reads=["model", "tables"],
        writes=["plan", "figures", "summary"],
        workspace=workspace,
        ray_job=ray_job,
    )
    for name, value in json.loads(Path(metrics.path).read_text()).items():
        metrics.log_metric(name, value)
