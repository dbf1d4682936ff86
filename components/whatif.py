"""Answer what a campaign would bring under other terms."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def whatif(
    answer: Output[Artifact],
    workspace: str,
    state: Input[Artifact] = None,
    groups: Input[Dataset] = None,
    log: Input[Artifact] = None,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.whatif.WhatifJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("whatif", arguments)
