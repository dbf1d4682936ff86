"""Measure spend and traffic before a price is solved again."""

from kfp import dsl
from kfp.dsl import Artifact, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def measure(
    state: Output[Artifact],
    workspace: str,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.measure.MeasureJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("measure", arguments)
