"""The training pipeline: prepare → featurize → train → worth → evaluate → register; it fails if the gate refuses."""

from kfp import dsl

from pipelines.learning import learn, tables_of, training_of
from pipelines.placement import MOUNT


@dsl.pipeline(
    name="shadowprice-train",
    display_name="Train and serve a model",
    description="Learn how every account responds to each incentive value.",
)
def train_pipeline(
    workspace: str = MOUNT,
    dataset: str = "world",
    data: str = "",
    ray_job: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    featurize_options: dict = {},  # noqa: B006
    train_options: dict = {},  # noqa: B006
    evaluate_options: dict = {},  # noqa: B006
) -> None:
    """Train a model and serve it if it passes the gate.

    Args:
        workspace: folder that outlives the run: feature repo, model served, prices.
        dataset: world, tables, o2o, thornton or promotion.
        data: folder of the files, for data sets that read files.
        ray_job: ConfigMap with the RayJob that featurize and train run in; empty runs them in the steps' containers.
        prepare_options: JSON; python -m operations prepare --help lists the options.
        featurize_options: JSON; python -m operations featurize --help lists the options.
        train_options: JSON; python -m operations train --help lists the options.
        evaluate_options: JSON; python -m operations evaluate --help lists the options.
    """
    options = {
        "prepare": prepare_options,
        "featurize": featurize_options,
        "train": train_options,
        "evaluate": evaluate_options,
    }
    tables = tables_of(dataset, data, options)
    training = training_of(tables, workspace, options=featurize_options, ray_job=ray_job)
    learn(training, tables, workspace, options=options, ray_job=ray_job, tell_worth=True)
