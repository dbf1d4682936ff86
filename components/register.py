"""Make a model that passed the gate the one that is served."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Model

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def register(
    model: Input[Model], workspace: str, evaluation: Input[Artifact] = None, campaign: Input[Artifact] = None
) -> str:
    """Run a :class:`operations.register.RegisterJob` and return the version of the model."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("register", arguments)
