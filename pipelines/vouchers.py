"""The pipeline of vouchers: prepare → featurize → train → evaluate → solve → register → publish."""

from kfp import dsl

from components.evaluate import evaluate
from components.featurize import featurize
from components.prepare import prepare
from components.publish import publish
from components.register import register
from components.solve import solve
from components.train import train
from pipelines.placement import MOUNT, placed


@dsl.pipeline(name="shadowprice-vouchers", description="Learn who redeems which voucher, and price the budget for it.")
def vouchers_pipeline(
    workspace: str = MOUNT,
    data: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    recipe: str = "dmbgn",
    epochs: int = 30,
    seed: int = 0,
    workers: int = 0,
    precision: str = "float32",
    campaign: str = "vouchers",
    budget: int = 100_000,
    requests: int = 1_000,
    ray_job: str = "",
) -> None:
    """Train on voucher sessions and serve the curves at a certified price.

    Args:
        workspace: folder that outlives the run: features, model served, prices.
        data: folder of session and behaviour tables; empty to generate some.
        options: of the generator; of files, test_from, the first instant of the test.
        recipe: name of a response model, such as dmbgn or din.
        epochs: at most, of the tuning.
        seed: of generated data, initialization and batches.
        campaign: name that the predictor serves it under.
        budget: minor units for the day.
        requests: expected in the day.
        workers: Ray workers that train; 0 trains in the component's own process.
        precision: of the products of a gradient step: float32 or bfloat16.
        ray_job: ConfigMap with the RayJob that training and solve run in; empty runs them in the steps' containers.
    """
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    prepared = prepare(dataset="vouchers", data=data, seed=seed, options=options)
    placed(prepared.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = placed(featurize(tables=tables, workspace=workspace), cpu="1", memory="16Gi", minutes=60)
    training = featurized.outputs["training"]
    trained = train(
        training=training,
        recipe=recipe,
        epochs=epochs,
        seed=seed,
        workers=workers,
        precision=precision,
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
            campaign=campaign,
            budget=budget,
            requests=requests,
            ray_job=ray_job,
        ).set_caching_options(False)
        placed(solved, cpu="1", memory="8Gi", minutes=30)
        price = solved.outputs["price"]
        registered = register(model=model, workspace=workspace, campaign=price).set_caching_options(False)
        placed(registered, cpu="1", memory="8Gi", minutes=30, online_store=True)
        published = publish(price=price, workspace=workspace, model_version=registered.output)
        placed(published.set_caching_options(False), cpu="250m", memory="2Gi", minutes=10, online_store=True)
