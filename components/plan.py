"""Plan a trial before the campaign starts."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Markdown, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def plan(
    campaign: Input[Artifact],
    result: Output[Artifact],
    page: Output[Markdown],
    metrics: Output[Metrics],
    accounts: int,
    prior: dict,
    precision: dict,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.plan.PlanJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("plan", arguments)
