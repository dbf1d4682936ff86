"""Step 5: make a model that passed the gate the one that is served."""

from kfp import dsl
from kfp.dsl import Input, Model

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def register(model: Input[Model], workspace: str) -> str:
    """Write the embeddings to the online store, register the version's feature services, point to the bundle.

    Args:
        model: from the train step.
        workspace: folder that outlives the run.

    Returns:
        The version of the model.
    """
    from pathlib import Path

    from feature_repo.register import register as step

    return step(Path(model.path), Path(workspace))
