"""The delivery pipeline: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from kfp import dsl

from components.featurize import featurize
from components.prepare import prepare
from pipelines.learning import learn
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT, placed


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
    train_options: dict = PARAMETERS["delivery"].jobs["train"],
    evaluate_options: dict = {},  # noqa: B006
) -> None:
    """Learn what deliveries bring, serve the values if their plan passes the gate, and publish the prices of places.

    Args:
        workspace: folder that outlives the run: feature repo, model served, prices, the plan.
        dataset: funds, or tables with offers of kind fund.
        data: folder of the files, for data sets that read files.
        ray_job: ConfigMap with the RayJob that training and solve run in; empty runs them in the steps' containers.
        prepare_options: JSON; python -m operations prepare --help lists the options.
        train_options: JSON; python -m operations train --help lists the options.
        evaluate_options: JSON; python -m operations evaluate --help lists the options.
    """
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    prepared = prepare(
        dataset=dataset, data=data, options=prepare_options, train=train_options, evaluate=evaluate_options
    )
    placed(prepared.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = featurize(tables=tables, workspace=workspace).set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    learn(
        featurized.outputs["training"],
        tables,
        workspace,
        options={"train": train_options, "evaluate": evaluate_options, "solve": {}},
        ray_job=ray_job,
    )
