"""The pipeline of the papers' tables: choose → measure, a table to a step → index."""

from kfp import dsl

from benchmarks.reproduce.components.choose_tables import choose_tables
from benchmarks.reproduce.components.index_tables import index_tables
from benchmarks.reproduce.components.measure_table import measure_table
from pipelines.placement import MOUNT, placed

AT_ONCE = 4


@dsl.pipeline(name="shadowprice-reproduce", description="The papers' tables, measured again, ours beside theirs.")
def reproduce_pipeline(
    workspace: str = MOUNT,
    tables: list = [],  # noqa: B006 - kfp reads the default from the signature
    data: str = "",
    quick: bool = True,
    seeds: int = 0,
) -> None:
    """Measure tables side by side. The steps keep what is finished by the code it was measured with, not by a cache.

    Args:
        workspace: folder that outlives the run; pages and finished seeds go to its folder results.
        tables: names as in the registry of the tables; empty for all.
        data: folder of the data that do not come with the project; tables that need them are skipped without.
        quick: small sizes and two seeds, minutes in all; false measures in full, hours.
        seeds: how many, instead of each table's own number; 0 leaves it to them.
    """
    chosen = choose_tables(tables=tables).set_caching_options(False)
    placed(chosen, cpu="250m", memory="1Gi", minutes=5)
    with dsl.ParallelFor(chosen.output, parallelism=AT_ONCE, name="each-table") as name:
        measured = measure_table(
            name=name, workspace=workspace, data=data, quick=quick, seeds=seeds
        ).set_caching_options(False)
        placed(measured, cpu="1", memory="8Gi", minutes=720)
    front = index_tables(workspace=workspace, measured=dsl.Collected(measured.outputs["Output"])).set_caching_options(
        False
    )
    placed(front, cpu="250m", memory="512Mi", minutes=5)
