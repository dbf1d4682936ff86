"""The pipeline of a list: decide each account of a file."""

from kfp import dsl

from components.decide import decide
from pipelines.parameters import PARAMETERS, described
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-decide",
    display_name="Decide a list",
    description="Decide each account of a list, and authorize each in the ledger.",
)
@described("decide")
def decide_pipeline(
    workspace: str = MOUNT,
    data: str = f"{MOUNT}/accounts.csv",
    settings: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Decide a list over exactly its accounts; a repeated run of the same list costs nothing.

    Args:
        workspace: folder with campaign, model and population.
        data: CSV or parquet file of accounts, on the workspace's volume.
        settings: {settings}
    """
    step = decide(accounts=data, workspace=workspace, options=settings, jobs=PARAMETERS["decide"].jobs)
    placed(step.set_caching_options(False), cpu="2", memory="4Gi", minutes=60, online_store=True, ledger=True)
