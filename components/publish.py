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
        The version published.
    """
    from pathlib import Path

    from feature_repo.resolve import publish_price_file

    return publish_price_file(Path(price.path), Path(workspace))
