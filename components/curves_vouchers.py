"""Vouchers, step 5: everyone's response to every voucher on offer."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def curves_vouchers(
    sessions: Input[Dataset], graphs: Input[Artifact], model: Input[Model], bundle: Output[Model]
) -> None:
    """Store the curve of every person's latest session, as any model is served.

    Args:
        sessions: from the validate step.
        graphs: from the graph step.
        model: from the train step.
        bundle: heads, stored curves and description, for a server without torch.
    """
    from pathlib import Path

    from shadowprice.learning.vouchers import store_curves

    version = store_curves(Path(sessions.path), Path(graphs.path), Path(model.path), Path(bundle.path), {})
    bundle.metadata["model_version"] = version
