"""The pipeline that closes the loop: prepare → harvest → featurize → train → evaluate → register or promote."""

from kfp import dsl

from components.featurize import featurize
from components.harvest import harvest
from components.prepare import prepare
from pipelines.learning import learn
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
    """
    prepared = prepare(
        dataset=dataset,
        data=data,
        workspace=workspace,
        options=prepare_options,
        harvest=harvest_options,
        featurize=featurize_options,
        train=train_options,
        evaluate=evaluate_options,
    ).set_caching_options(False)
    placed(prepared, cpu="1", memory="8Gi", minutes=60)
    served = harvest(tables=prepared.outputs["tables"], log=log, workspace=workspace, options=harvest_options)
    placed(served.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = served.outputs["harvested"]
    featurized = featurize(
        tables=tables, workspace=workspace, keep_campaign=True, options=featurize_options, ray_job=ray_job
    )
    featurized.set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    learn(
        featurized.outputs["training"],
        tables,
        workspace,
        options={"train": train_options, "evaluate": evaluate_options},
        ray_job=ray_job,
        canary=canary,
    )
