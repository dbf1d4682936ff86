"""The hourly pipeline: measure → solve → publish."""

from typing import Any

from kfp import dsl

from components.measure import measure
from components.publish import publish
from components.solve import solve
from pipelines.placement import MOUNT, placed


def price(
    workspace: Any,
    *,
    measure_options: Any = None,
    solve_options: Any = None,
    ray_job: Any = "",
    log: Any = "",
    after: Any = None,
    tables: Any = None,
) -> None:
    """Add measure → solve → publish to the pipeline that calls it, after the step ``after``.

    ``tables`` are the prepared tables, for the page of a delivery's plan.
    """
    measured = measure(workspace=workspace, options=measure_options or {}).set_caching_options(False)
    if after is not None:
        measured.after(after)
    placed(measured, cpu="250m", memory="1Gi", minutes=5, ledger=True, prometheus=True)
    told = {} if tables is None else {"tables": tables}
    state, options = measured.outputs["state"], solve_options or {}
    solved = solve(state=state, workspace=workspace, options=options, ray_job=ray_job, **told)
    solved.set_caching_options(False)
    placed(solved, cpu="1", memory="4Gi", minutes=10, online_store=True)
    published = publish(price=solved.outputs["price"], workspace=workspace, log=log).set_caching_options(False)
    placed(published, cpu="250m", memory="1Gi", minutes=5, online_store=True)


@dsl.pipeline(
    name="shadowprice-resolve",
    display_name="Price the rest of the budget",
    description="Solve the price of the money or the places that are left.",
)
def resolve_pipeline(
    workspace: str = MOUNT,
    ray_job: str = "",
    log: str = "",
    measure_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    solve_options: dict = {},  # noqa: B006
) -> None:
    """Solve λ* again and publish it. Steps that depend on the present time are never cached.

    Args:
        workspace: folder with campaign, model, features and prices.
        ray_job: ConfigMap with the RayJob that the solve runs in; empty solves in the step's own container.
        log: folder of the decision log, whose head is sealed in the price; that of a run on one machine if empty.
        measure_options: JSON; python -m operations measure --help lists the options.
        solve_options: JSON; python -m operations solve --help lists the options.
    """
    price(workspace, measure_options=measure_options, solve_options=solve_options, ray_job=ray_job, log=log)
