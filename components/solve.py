"""Re-solve, step 2: the price of the money that is left."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Metrics, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def solve(
    state: Input[Artifact],
    price: Output[Artifact],
    metrics: Output[Metrics],
    workspace: str,
    solver: str = "auto",
    ray_job: str = "",
) -> None:
    """Solve the dual on recent traffic; fails when the solve is not certified, and the last good price stays.

    A moment that has its price already keeps it: the record handed on is that one.

    Args:
        state: from the measure step.
        price: the price record, sealed, not yet published.
        metrics: price, tie share, gap, violation.
        workspace: folder with campaign, model and features.
        solver: a solver's name; auto takes the fast exact one.
        ray_job: ConfigMap with the RayJob to solve in; empty solves in this container.
    """
    from pathlib import Path

    from components.ray_job import run_step
    from shadowprice.price import PriceRecord

    run_step(
        "solve",
        {"state": state.path, "price": price.path, "workspace": workspace, "solver": solver},
        reads=["state"],
        writes=["price"],
        workspace=workspace,
        ray_job=ray_job,
    )
    record = PriceRecord.from_json(Path(price.path).read_text())
    for name, value in record.prices.items():
        metrics.log_metric(f"price_{name}", value)
    for name in ("tie_share", "gap", "violation", "sample_rows"):
        metrics.log_metric(name, float(getattr(record, name)))
