"""The hourly pipeline: measure → solve → publish."""

from typing import Any

from kfp import dsl

from components.measure import measure
from components.publish import publish
from components.solve import solve as solve_price
from pipelines.parameters import PARAMETERS, described
from pipelines.placement import MOUNT, placed


def price(workspace: Any, *, tables: Any = None, solve: Any = None, log: Any = "", **measured: Any) -> None:
    """Add measure → solve → publish to the pipeline that calls it.

    Args:
        workspace: parameter of the pipeline.
        tables: prepared tables, for the page of a delivery's plan.
        solve: options of the solve; those that measure returns, if it gets the settings of the pipeline.
        log: folder of the decision log, whose head is sealed in the price.
        measured: further inputs of measure, such as the artifact of a model that was registered.
    """
    first = measure(workspace=workspace, **measured).set_caching_options(False)
    placed(first, cpu="250m", memory="1Gi", minutes=5, ledger=True, prometheus=True)
    options = first.outputs["solve"] if solve is None else solve
    told = {} if tables is None else {"tables": tables}
    solved = solve_price(state=first.outputs["state"], workspace=workspace, options=options, **told)
    solved.set_caching_options(False)
    placed(solved, cpu="1", memory="4Gi", minutes=10, online_store=True)
    published = publish(price=solved.outputs["price"], workspace=workspace, log=log).set_caching_options(False)
    placed(published, cpu="250m", memory="1Gi", minutes=5, online_store=True)


@dsl.pipeline(
    name="shadowprice-resolve",
    display_name="Price the rest of the budget",
    description="Solve the price of the money or the places that are left.",
)
@described("resolve")
def resolve_pipeline(
    workspace: str = MOUNT,
    log: str = "",
    settings: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Solve λ* again and publish it. Steps that depend on the present time are never cached.

    Args:
        workspace: folder with campaign, model, features and prices.
        log: folder of the decision log, whose head is sealed in the price; that of a run on one machine if empty.
        settings: {settings}
    """
    price(workspace, log=log, options=settings, jobs=PARAMETERS["resolve"].jobs)
