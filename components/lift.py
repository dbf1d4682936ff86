"""Estimate what the arms of a campaign brought, from its decision log."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Markdown, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def lift(
    log: Input[Dataset],
    campaign: Input[Artifact],
    features: Input[Dataset],
    result: Output[Artifact],
    page: Output[Markdown],
    metrics: Output[Metrics],
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.lift.LiftJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("lift", arguments)
