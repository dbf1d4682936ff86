"""Vouchers, step 3: pre-train and train a response model."""

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def train_vouchers(
    sessions: Input[Dataset],
    graphs: Input[Artifact],
    model: Output[Model],
    metrics: Output[Metrics],
    recipe: str,
    epochs: int,
    seed: int,
) -> None:
    """Embed items, pre-train vouchers and graph network on the training sessions, then tune.

    Args:
        sessions: from the validate step.
        graphs: from the graph step.
        model: the fitted model.
        metrics: validation loss and epochs.
        recipe: name of a response model, such as dmbgn or din.
        epochs: at most, of the tuning.
        seed: of initialisation and batches.
    """
    from pathlib import Path

    from shadowprice.learning.vouchers import train

    found = train(Path(sessions.path), Path(graphs.path), Path(model.path), recipe, epochs, seed)
    for name, value in found.items():
        metrics.log_metric(name, value)
