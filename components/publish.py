"""Publish the price."""

from kfp import dsl
from kfp.dsl import Artifact, Input

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def publish(price: Input[Artifact], workspace: str, log: str = "") -> int:
    """Run a :class:`operations.publish.PublishJob` and return the active version."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("publish", arguments)
