"""Re-solve, step 3: publish the price."""

from kfp import dsl
from kfp.dsl import Artifact, Input

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def publish(price: Input[Artifact], workspace: str) -> int:
    """Add the record to the price store, unless another solver was first, and point the feature store at it.

    Args:
        price: from the solve step.
        workspace: folder with price store and features.

    Returns:
        The version in force: that of the other solver where one was first.
    """
    from pathlib import Path

    from feature_repo.resolve import publish_or_keep

    return publish_or_keep(Path(price.path), Path(workspace))
