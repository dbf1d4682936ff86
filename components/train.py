"""Step 3: train a recipe on Ray, calibrate it, export it."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def train(
    training: Input[Dataset],
    model: Output[Model],
    metrics: Output[Metrics],
    recipe: str,
    epochs: int,
    seed: int,
    workers: int,
    curve_repair: str,
) -> None:
    """Train with early stop; the bundle holds network, response heads and embeddings.

    Args:
        training: from the featurize step.
        model: the bundle.
        metrics: validation loss and epochs.
        recipe: joint_gnn, dnn_h, dnn, or the name of a response layer or response model.
        epochs: at most.
        seed: of initialisation and dropout.
        workers: Ray workers; 0 trains in the component's own process.
        curve_repair: none, or of effect, pooled, by_level, monotone joined by '+'.
    """
    from pathlib import Path

    from shadowprice.learning.fit import fit_bundle
    from shadowprice.responses.training import TrainingConfig

    config = TrainingConfig(epochs=epochs, seed=seed)
    version, result = fit_bundle(
        Path(training.path), Path(model.path), recipe, config, workers=workers, curve_repair=curve_repair
    )
    model.metadata["model_version"] = version
    metrics.log_metric("validation_loss", result.validation_loss)
    metrics.log_metric("epochs", result.epochs)
    metrics.log_metric("best_epoch", result.best_epoch)
