"""Vouchers, step 7: put campaign, curves and price where they are served from."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Model

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def publish_vouchers(bundle: Input[Model], price: Input[Artifact], workspace: str) -> int:
    """Register the stored curves and publish the price.

    Args:
        bundle: from the curves step.
        price: from the solve step.
        workspace: folder that predictor and ledger are started on.

    Returns:
        The price's version.
    """
    from pathlib import Path

    from feature_repo.vouchers import publish_vouchers as step

    return step(Path(bundle.path), Path(price.path), Path(workspace))
