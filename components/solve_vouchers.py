"""Vouchers, step 6: the price of the budget."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def solve_vouchers(
    bundle: Input[Model],
    price: Output[Artifact],
    metrics: Output[Metrics],
    workspace: str,
    campaign: str,
    budget: int,
    requests: int,
    ray_job: str = "",
) -> None:
    """Solve the dual over the stored curves; fails when the solve is not certified.

    Args:
        bundle: from the curves step.
        price: campaign and price record, sealed, not yet published.
        metrics: price, gap, violation.
        workspace: folder with the price store.
        campaign: its name.
        budget: minor units for the day.
        requests: expected in the day.
        ray_job: ConfigMap with the RayJob to solve in; empty solves in this container.
    """
    from pathlib import Path

    from components.ray_job import run_step
    from shadowprice.price import PriceRecord

    run_step(
        "solve-vouchers",
        {
            "bundle": bundle.path,
            "price": price.path,
            "workspace": workspace,
            "campaign": campaign,
            "budget": budget,
            "requests": requests,
        },
        reads=["bundle"],
        writes=["price"],
        workspace=workspace,
        ray_job=ray_job,
    )
    record = PriceRecord.from_json((Path(price.path) / "price.json").read_text())
    for name in ("tie_share", "gap", "violation", "sample_rows"):
        metrics.log_metric(name, float(getattr(record, name)))
    metrics.log_metric("price", record.prices["budget"])
