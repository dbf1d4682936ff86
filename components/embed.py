"""Embed accounts that came after training."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def embed(
    training: Input[Dataset],
    workspace: str,
    metrics: Output[Metrics],
) -> None:
    """Run an :class:`operations.embed.EmbedJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("embed", arguments)
