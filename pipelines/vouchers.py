"""The pipeline of vouchers: prepare → featurize → train → evaluate → solve → register → publish."""

from kfp import dsl

from components.evaluate import evaluate
from components.featurize import featurize
from components.prepare import prepare
from components.publish import publish
from components.register import register
from components.solve import solve
from components.train import train
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-vouchers",
    display_name="Run a voucher campaign",
    description="Learn who redeems which voucher, and price the budget for it.",
)
def vouchers_pipeline(
    workspace: str = MOUNT,
    data: str = "",
    ray_job: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    train_options: dict = PARAMETERS["vouchers"].jobs["train"],
    solve_options: dict = PARAMETERS["vouchers"].jobs["solve"],
) -> None:
    """Train on voucher sessions and serve the curves at a certified price.

    Args:
        workspace: folder that outlives the run: features, model served, prices.
        data: folder of session and behaviour tables; empty to generate some.
        ray_job: ConfigMap with the RayJob that training and solve run in; empty runs them in the steps' containers.
        prepare_options: JSON; python -m operations prepare --help lists the options.
        train_options: JSON; python -m operations train --help lists the options.
        solve_options: JSON; python -m operations solve --help lists the options.
    """
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    prepared = prepare(dataset="vouchers", data=data, options=prepare_options, train=train_options, solve=solve_options)
    placed(prepared.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = placed(featurize(tables=tables, workspace=workspace), cpu="1", memory="16Gi", minutes=60)
    training = featurized.outputs["training"]
    trained = train(
        training=training,
        options=train_options,
        workspace=workspace,
        ray_job=ray_job,
    )
    placed(trained, cpu="2", memory="16Gi", minutes=480)
    model = trained.outputs["model"]
    verdict = placed(evaluate(model=model, training=training, tables=tables), cpu="1", memory="16Gi", minutes=60)
    with dsl.If(verdict.outputs["Output"] == True, name="better-than-chance"):  # noqa: E712 - a pipeline condition
        solved = solve(
            model=model,
            workspace=workspace,
            options=solve_options,
            ray_job=ray_job,
        ).set_caching_options(False)
        placed(solved, cpu="1", memory="8Gi", minutes=30)
        price = solved.outputs["price"]
        registered = register(model=model, workspace=workspace, campaign=price).set_caching_options(False)
        placed(registered, cpu="1", memory="8Gi", minutes=30, online_store=True)
        published = publish(price=price, workspace=workspace, model_version=registered.output)
        placed(published.set_caching_options(False), cpu="250m", memory="2Gi", minutes=10, online_store=True)
