"""The pipeline of vouchers: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from kfp import dsl

from pipelines.learning import learn, tables_of, training_of
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT


@dsl.pipeline(
    name="shadowprice-vouchers",
    display_name="Run a voucher campaign",
    description="Learn who redeems which voucher, and price the budget for it.",
)
def vouchers_pipeline(
    workspace: str = MOUNT,
    dataset: str = "vouchers",
    data: str = "",
    ray_job: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    featurize_options: dict = {},  # noqa: B006
    train_options: dict = PARAMETERS["vouchers"].jobs["train"],
    evaluate_options: dict = {},  # noqa: B006
) -> None:
    """Train on voucher sessions, serve the curves if they pass the gate, and publish the first price.

    Args:
        workspace: folder that outlives the run: features, model served, prices.
        dataset: vouchers, whose people, carts and redemptions are sessions.
        data: folder of session and behaviour tables; empty to generate some.
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
