"""The pipeline that closes the loop: prepare → harvest → featurize → train → evaluate → register or promote."""

from kfp import dsl

from components.harvest import harvest
from pipelines.learning import learn, prepared, training_of
from pipelines.parameters import described
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-retrain",
    display_name="Train again on what was served",
    description="Train again, with the decisions that were served.",
)
@described("retrain")
def retrain_pipeline(
    workspace: str = MOUNT,
    dataset: str = "tables",
    data: str = "",
    log: str = "",
    settings: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Train a model on its data set and on what it was served with; serve it if it beats the one in use.

    With the setting ``canary`` a model that passes the gate first decides for a small share beside the one in use; the
    job promote then lets it grow, or rolls it back.

    Args:
        workspace: folder with the campaign that is served; gets the new model.
        dataset: that the model in use was trained on, with the newest files.
        data: folder of the files, for data sets that read files.
        log: folder of the decision log; that of a run on one machine if empty.
        settings: {settings}
    """
    options = prepared("retrain", dataset=dataset, data=data, workspace=workspace, options=settings)
    served = harvest(tables=options["tables"], log=log, workspace=workspace, options=options["harvest"])
    served.set_caching_options(False)
    tables = placed(served, cpu="1", memory="8Gi", minutes=60).outputs["harvested"]
    training = training_of(tables, workspace, keep_campaign=True, options=options["featurize"])
    learn(training, tables, workspace, options=options, trial=True)
