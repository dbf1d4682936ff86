"""The pipeline that closes the loop: prepare → harvest → featurize → train → evaluate → register or promote."""

from kfp import dsl

from components.harvest import harvest
from pipelines.learning import learn, tables_of, training_of
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-retrain",
    display_name="Train again on what was served",
    description="Train again, with the decisions that were served.",
)
def retrain_pipeline(
    workspace: str = MOUNT,
    dataset: str = "tables",
    data: str = "",
    log: str = "",
    canary: bool = False,
    ray_job: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    harvest_options: dict = {},  # noqa: B006
    featurize_options: dict = {},  # noqa: B006
    train_options: dict = {},  # noqa: B006
    evaluate_options: dict = {},  # noqa: B006
    register_options: dict = {},  # noqa: B006
) -> None:
    """Train a model on its data set and on what it was served with; serve it if it beats the one in use.

    Args:
        workspace: folder with the campaign that is served; gets the new model.
        dataset: that the model in use was trained on, with the newest files.
        data: folder of the files, for data sets that read files.
        log: folder of the decision log; that of a run on one machine if empty.
        canary: whether a model that passes the gate first decides for a small share beside the one in use; the job
            promote then lets it grow, or rolls it back.
        ray_job: ConfigMap with the RayJob that featurize and train run in; empty runs them in the steps' containers.
        prepare_options: JSON; python -m operations prepare --help lists the options.
        harvest_options: JSON; python -m operations harvest --help lists the options.
        featurize_options: JSON; python -m operations featurize --help lists the options.
        train_options: JSON; python -m operations train --help lists the options.
        evaluate_options: JSON; python -m operations evaluate --help lists the options.
        register_options: JSON; python -m operations register --help lists the options.
    """
    options = {
        "prepare": prepare_options,
        "harvest": harvest_options,
        "featurize": featurize_options,
        "train": train_options,
        "evaluate": evaluate_options,
        "register": register_options,
    }
    given = tables_of(dataset, data, workspace, options)
    served = harvest(tables=given, log=log, workspace=workspace, options=harvest_options).set_caching_options(False)
    tables = placed(served, cpu="1", memory="8Gi", minutes=60).outputs["harvested"]
    training = training_of(tables, workspace, keep_campaign=True, options=featurize_options, ray_job=ray_job)
    learn(training, tables, workspace, options=options, ray_job=ray_job, canary=canary)
