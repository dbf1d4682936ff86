"""Watch the quality of the served model, from the decision log of its campaign."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Markdown, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def watch(
    log: Input[Dataset],
    workspace: str,
    result: Output[Artifact],
    page: Output[Markdown],
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.watch.WatchJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("watch", arguments)
