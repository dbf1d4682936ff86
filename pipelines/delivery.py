"""The delivery pipeline: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from kfp import dsl

from pipelines.learning import learn, tables_of, training_of
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT


@dsl.pipeline(
    name="shadowprice-delivery",
    display_name="Deliver funds to accounts",
    description="Give every account a fund, each fund exactly its number.",
)
def delivery_pipeline(
    workspace: str = MOUNT,
    dataset: str = "funds",
    data: str = "",
    ray_job: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    featurize_options: dict = {},  # noqa: B006
    train_options: dict = PARAMETERS["delivery"].jobs["train"],
    evaluate_options: dict = {},  # noqa: B006
) -> None:
    """Learn what deliveries bring, serve the values if their plan passes the gate, and publish the prices of places.

    Args:
        workspace: folder that outlives the run: feature repo, model served, prices, the plan.
        dataset: funds, or tables with offers of kind fund.
        data: folder of the files, for data sets that read files.
        ray_job: ConfigMap with the RayJob that featurize, training and solve run in; empty runs them in the steps'
            containers.
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
        "solve": {},
    }
    tables = tables_of(dataset, data, options)
    training = training_of(tables, workspace, options=featurize_options, ray_job=ray_job)
    learn(training, tables, workspace, options=options, ray_job=ray_job)
