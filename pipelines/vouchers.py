"""The pipeline of vouchers: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from kfp import dsl

from components.featurize import featurize
from components.prepare import prepare
from pipelines.learning import learn
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT, placed


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
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    prepared = prepare(
        dataset=dataset,
        data=data,
        workspace=workspace,
        options=prepare_options,
        featurize=featurize_options,
        train=train_options,
        evaluate=evaluate_options,
    ).set_caching_options(False)
    placed(prepared, cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = featurize(tables=tables, workspace=workspace, options=featurize_options, ray_job=ray_job)
    featurized.set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    learn(
        featurized.outputs["training"],
        tables,
        workspace,
        options={"train": train_options, "evaluate": evaluate_options, "solve": {}},
        ray_job=ray_job,
    )
