"""Estimate what personalizing is worth."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Metrics, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def worth(
    model: Input[Model],
    training: Input[Dataset],
    tables: Input[Dataset],
    worth: Output[Artifact],
    metrics: Output[Metrics],
    workspace: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.worth.WorthJob` by the options that the model was trained with."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("worth", arguments, options_of="train")
