"""The delivery pipeline: prepare → featurize → train → evaluate → solve → register → publish."""

from kfp import dsl

from components.evaluate import evaluate
from components.featurize import featurize
from components.prepare import prepare
from components.publish import publish
from components.register import gate_refused, register
from components.solve import solve
from components.train import train
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
    """Learn what deliveries bring, plan them exactly, and serve the plan if it is certified and passes the gate.

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
        dataset=dataset,
        data=data,
        workspace=workspace,
        options=prepare_options,
        train=train_options,
        evaluate=evaluate_options,
    )
    placed(prepared.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = featurize(tables=tables, workspace=workspace).set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    trained = train(
        training=featurized.outputs["training"],
        workspace=workspace,
        options=train_options,
        ray_job=ray_job,
    ).set_caching_options(False)
    placed(trained, cpu="2", memory="16Gi", minutes=480)
    model = trained.outputs["model"]
    verdict = evaluate(model=model, training=featurized.outputs["training"], tables=tables, options=evaluate_options)
    placed(verdict.set_caching_options(False), cpu="1", memory="16Gi", minutes=60)
    evaluation = verdict.outputs["evaluation"]
    with dsl.If(verdict.outputs["Output"] == True, name="gate-passed"):  # noqa: E712 - a pipeline condition
        solved = solve(model=model, tables=tables, workspace=workspace, ray_job=ray_job).set_caching_options(False)
        placed(solved, cpu="2", memory="16Gi", minutes=60)
        registered = register(model=model, workspace=workspace, evaluation=evaluation).after(solved)
        placed(registered.set_caching_options(False), cpu="1", memory="8Gi", minutes=60, online_store=True)
        published = publish(
            price=solved.outputs["price"], workspace=workspace, model_version=registered.output
        ).set_caching_options(False)
        placed(published, cpu="250m", memory="2Gi", minutes=10, online_store=True)
    with dsl.Else(name="gate-refused"):
        refused = gate_refused(model=model, workspace=workspace, evaluation=evaluation, page=verdict.outputs["page"])
        placed(refused.set_caching_options(False), cpu="1", memory="8Gi", minutes=60, retries=0)
