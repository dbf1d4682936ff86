"""The training pipeline: prepare → featurize → train → worth → evaluate → register; it fails if the gate refuses."""

from kfp import dsl

from components.featurize import featurize
from components.prepare import prepare
from pipelines.learning import learn
from pipelines.placement import MOUNT, placed


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
        options={"train": train_options, "evaluate": evaluate_options},
        ray_job=ray_job,
        tell_worth=True,
    )
