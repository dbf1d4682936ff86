"""Train a model, here or as a Ray job."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def train(
    training: Input[Dataset],
    model: Output[Model],
    metrics: Output[Metrics],
    workspace: str,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.train.TrainJob`, in this container or as a Ray job."""
    arguments = dict(locals())
    from components.run import run_component
    from shadowprice.learning.bundle import version_in

    run_component("train", arguments)
    model.metadata.update(version_in(model.path))
