"""The pipeline of vouchers: validate → graphs → train → evaluate → curves → solve → publish."""

from kfp import dsl

from components.curves_vouchers import curves_vouchers
from components.evaluate_vouchers import evaluate_vouchers
from components.graph_vouchers import graph_vouchers
from components.publish_vouchers import publish_vouchers
from components.solve_vouchers import solve_vouchers
from components.train_vouchers import train_vouchers
from components.validate_vouchers import validate_vouchers
from pipelines.placement import MOUNT, placed


@dsl.pipeline(name="shadowprice-vouchers", description="Learn who redeems which voucher, and price the budget for it.")
def vouchers_pipeline(
    workspace: str = MOUNT,
    data: str = "",
    test_from: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    recipe: str = "dmbgn",
    epochs: int = 30,
    seed: int = 0,
    campaign: str = "vouchers",
    budget: int = 100_000,
    requests: int = 1_000,
    ray_job: str = "",
) -> None:
    """Train on voucher sessions and serve the curves at a certified price.

    Args:
        workspace: folder that outlives the run: features, model served, prices.
        data: folder of session and behaviour tables; empty to generate some.
        test_from: first instant of the test, where data are given.
        options: of the generator.
        recipe: name of a response model, such as dmbgn or din.
        epochs: at most, of the tuning.
        seed: of generated data, initialisation and batches.
        campaign: name that the predictor serves it under.
        budget: minor units for the day.
        requests: expected in the day.
        ray_job: ConfigMap with the RayJob that training and solve run in; empty runs them in the steps' containers.
    """
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    checked = validate_vouchers(data=data, test_from=test_from, seed=seed, options=options).set_caching_options(False)
    placed(checked, cpu="1", memory="8Gi", minutes=60)
    sessions = checked.outputs["sessions"]
    drawn = placed(graph_vouchers(sessions=sessions), cpu="1", memory="16Gi", minutes=60)
    graphs = drawn.outputs["graphs"]
    trained = train_vouchers(
        sessions=sessions,
        graphs=graphs,
        recipe=recipe,
        epochs=epochs,
        seed=seed,
        workspace=workspace,
        ray_job=ray_job,
    )
    placed(trained, cpu="2", memory="16Gi", minutes=480)
    model = trained.outputs["model"]
    verdict = placed(
        evaluate_vouchers(sessions=sessions, graphs=graphs, model=model), cpu="1", memory="16Gi", minutes=60
    )
    with dsl.If(verdict.outputs["Output"] == True, name="better-than-chance"):  # noqa: E712 - a pipeline condition
        stored = placed(
            curves_vouchers(sessions=sessions, graphs=graphs, model=model), cpu="1", memory="16Gi", minutes=120
        )
        bundle = stored.outputs["bundle"]
        solved = solve_vouchers(
            bundle=bundle,
            workspace=workspace,
            campaign=campaign,
            budget=budget,
            requests=requests,
            ray_job=ray_job,
        ).set_caching_options(False)
        placed(solved, cpu="1", memory="8Gi", minutes=30)
        published = publish_vouchers(bundle=bundle, price=solved.outputs["price"], workspace=workspace)
        placed(published.set_caching_options(False), cpu="1", memory="8Gi", minutes=30, online_store=True)
