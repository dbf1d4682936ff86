"""Write the features into Feast and read the training set back, point in time, here or as a Ray job."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def featurize(
    tables: Input[Dataset],
    training: Output[Dataset],
    workspace: str,
    keep_campaign: bool = False,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.featurize.FeaturizeJob`, in this container or as a Ray job."""
    arguments = dict(locals())
    from components.run import run_component

    training.metadata.update(run_component("featurize", arguments) or {})
