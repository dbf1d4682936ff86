"""Vouchers, step 2: the graphs of what was done around them."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Metrics, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def graph_vouchers(sessions: Input[Dataset], graphs: Output[Artifact], metrics: Output[Metrics]) -> None:
    """Build the graphs of all sessions; fails where the split, the labels or a target know the future.

    Args:
        sessions: from the validate step.
        graphs: nodes by session and group.
        metrics: sessions by part, nodes, vouchers.
    """
    from pathlib import Path

    from shadowprice.learning.vouchers import build

    for name, value in build(Path(sessions.path), Path(graphs.path)).items():
        metrics.log_metric(name, value)
