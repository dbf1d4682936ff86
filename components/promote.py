"""Put a model on trial beside the served one, or take the next step of the canary that runs."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Markdown, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def promote(
    page: Output[Markdown],
    workspace: str,
    model: Input[Model] = None,
    evaluation: Input[Artifact] = None,
    log: str = "",
    pipeline_run: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> str:
    """Run a :class:`operations.promote.PromoteJob` and return its step."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("promote", arguments)
