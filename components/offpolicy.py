"""Estimate another policy from the decision log."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Markdown, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def offpolicy(
    log: Input[Dataset],
    campaign: Input[Artifact],
    result: Output[Artifact],
    page: Output[Markdown],
    workspace: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.offpolicy.OffpolicyJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("offpolicy", arguments)
