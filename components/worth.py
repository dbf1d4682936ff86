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
    recipe: str = "",
    epochs: int = 0,
    seed: int = 0,
    curve_repair: str = "",
    calibration: str = "",
) -> None:
    """Run a :class:`operations.worth.WorthJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("worth", arguments)
