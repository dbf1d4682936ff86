"""Delivery, step 6: publish the plan and the prices of its seats."""

from kfp import dsl
from kfp.dsl import Dataset, Input

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def publish_delivery(plan: Input[Dataset], workspace: str, model_version: str) -> int:
    """Put the plan into the workspace and its prices into the price store.

    Args:
        plan: from the deliver step.
        workspace: folder with price store and features.
        model_version: of the register step, which comes before: prices are of its values.

    Returns:
        The version of the price published.
    """
    from pathlib import Path

    from feature_repo.delivery import publish as step

    return step(Path(plan.path), Path(workspace), model_version)
