"""The hourly pipeline: measure → solve → publish."""

from kfp import dsl

from components.measure import measure
from components.publish import publish
from components.solve import solve
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-resolve",
    display_name="Price the rest of the budget",
    description="Solve the price of the money that is left.",
)
def resolve_pipeline(
    workspace: str = MOUNT,
    ray_job: str = "",
    measure_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    solve_options: dict = {},  # noqa: B006
) -> None:
    """Solve λ* again and publish it. What now matters is never cached.

    Args:
        workspace: folder with campaign, model, features and prices.
        ray_job: ConfigMap with the RayJob that the solve runs in; empty solves in the step's own container.
        measure_options: JSON; python -m operations measure --help lists the options.
        solve_options: JSON; python -m operations solve --help lists the options.
    """
    measured = measure(workspace=workspace, options=measure_options).set_caching_options(False)
    placed(measured, cpu="250m", memory="1Gi", minutes=5, ledger=True)
    solved = solve(state=measured.outputs["state"], workspace=workspace, options=solve_options, ray_job=ray_job)
    solved.set_caching_options(False)
    placed(solved, cpu="1", memory="4Gi", minutes=10, online_store=True)
    published = publish(price=solved.outputs["price"], workspace=workspace).set_caching_options(False)
    placed(published, cpu="250m", memory="1Gi", minutes=5, online_store=True)
