"""Delivery, step 3: learn what each fund is worth for each account."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def learn_delivery(
    training: Input[Dataset],
    tables: Input[Dataset],
    model: Output[Model],
    metrics: Output[Metrics],
    workspace: str,
    recipe: str,
    loss: str,
    epochs: int,
    seed: int,
    ray_job: str = "",
) -> None:
    """Train a model of funds; the bundle holds the network, and the expected value of every fund for every account.

    Args:
        training: from the featurize step.
        tables: from the prepare step: actions, features of funds and risk tolerances.
        model: the bundle.
        metrics: figures on the test split.
        workspace: folder with the campaign.
        recipe: esdpm, or another registered model of funds.
        loss: esj, esj_mass, cragg, ziln or mse in place of the model's own; empty for that.
        epochs: at most; 0 leaves it to the model.
        seed: of initialisation.
        ray_job: ConfigMap with the RayJob to run the training in; empty trains in this container.
    """
    import json
    from pathlib import Path

    from components.ray_job import run_step
    from shadowprice.learning.bundle import read_meta

    run_step(
        "learn-delivery",
        {
            "training": training.path,
            "tables": tables.path,
            "model": model.path,
            "figures": metrics.path,
            "workspace": workspace,
            "recipe": recipe,
            "loss": loss,
            "epochs": epochs,
            "seed": seed,
        },
        reads=["training", "tables"],
        writes=["model", "figures"],
        workspace=workspace,
        ray_job=ray_job,
    )
    model.metadata["model_version"] = read_meta(Path(model.path))["model_version"]
    for name, value in json.loads(Path(metrics.path).read_text()).items():
        metrics.log_metric(name, value)
