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
    workspace: str = "",
    ray_job: str = "",
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
        workspace: folder that a Ray job's pods mount too.
        ray_job: ConfigMap with the RayJob to run the training in; empty trains in this container.
    """
    import json
    from pathlib import Path

    from components.ray_job import run_step

    run_step(
        "train-vouchers",
        {
            "sessions": sessions.path,
            "graphs": graphs.path,
            "model": model.path,
            "figures": metrics.path,
            "recipe": recipe,
            "epochs": epochs,
            "seed": seed,
        },
        reads=["sessions", "graphs"],
        writes=["model", "figures"],
        workspace=workspace,
        ray_job=ray_job,
    )
    for name, value in json.loads(Path(metrics.path).read_text()).items():
        metrics.log_metric(name, value)
