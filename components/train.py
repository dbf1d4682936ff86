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
    calibration: str = "",
    workspace: str = "",
    ray_job: str = "",
) -> None:
    """Train with early stop; the bundle holds network, response heads and embeddings.

    Args:
        training: from the featurize step.
        model: the bundle.
        metrics: validation loss and epochs.
        recipe: joint_gnn, dnn_h, dnn, or the name of a response layer or response model; empty for the data set's own.
        epochs: at most.
        seed: of initialisation and dropout.
        workers: Ray workers; 0 trains in the component's own process.
        curve_repair: none, or of effect, pooled, by_level, monotone joined by '+'; empty for the data set's own.
        calibration: validation or rolling; empty for the data set's own.
        workspace: folder that a Ray job's pods mount too.
        ray_job: ConfigMap with the RayJob to run the training in; empty trains in this container.
    """
    from pathlib import Path

    from components.ray_job import run_step
    from shadowprice.learning.bundle import read_meta

    run_step(
        "train",
        {
            "training": training.path,
            "model": model.path,
            "recipe": recipe,
            "epochs": epochs,
            "seed": seed,
            "workers": workers,
            "curve_repair": curve_repair,
            "calibration": calibration,
        },
        reads=["training"],
        writes=["model"],
        workspace=workspace,
        ray_job=ray_job,
    )
    meta = read_meta(Path(model.path))
    model.metadata["model_version"] = meta["model_version"]
    for name in ("validation_loss", "epochs", "best_epoch"):
        metrics.log_metric(name, meta["metrics"][name])
