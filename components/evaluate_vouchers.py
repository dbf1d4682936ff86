"""Vouchers, step 4: judge the model on the sessions after the test's beginning."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def evaluate_vouchers(
    sessions: Input[Dataset], graphs: Input[Artifact], model: Input[Model], metrics: Output[Metrics]
) -> bool:
    """Say whether the model ranks better than chance; AUC, log loss and means are metrics.

    Args:
        sessions: from the validate step.
        graphs: from the graph step.
        model: from the train step.
        metrics: of the test sessions.

    Returns:
        Whether its curves may be served.
    """
    from pathlib import Path

    from shadowprice.learning.vouchers import evaluate

    found = evaluate(Path(sessions.path), Path(graphs.path), Path(model.path))
    for name, value in found.items():
        metrics.log_metric(name, value)
    return found["auc"] > 0.5
