"""Solve the price of the budget, here or as a Ray job."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Markdown, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def solve(
    price: Output[Artifact],
    metrics: Output[Metrics],
    summary: Output[Markdown],
    state: Input[Artifact],
    workspace: str,
    tables: Input[Dataset] = None,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.solve.SolveJob`, in this container or as a Ray job."""
    arguments = dict(locals())
    from pathlib import Path

    from components.run import run_component
    from operations.common.model_registry import lineage_of
    from operations.common.workspace import PRICE
    from shadowprice.price import PriceRecord

    run_component("solve", arguments)
    record = PriceRecord.read(Path(price.path) / PRICE)
    lineage = lineage_of(Path(workspace), record.model_version)
    price.metadata.update({"campaign": record.campaign, "model_version": record.model_version, **lineage})
