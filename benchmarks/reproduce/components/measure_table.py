"""Reproduce, step 2: one of the papers' tables, ours beside theirs."""

from kfp import dsl
from kfp.dsl import Markdown, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def measure_table(page: Output[Markdown], name: str, workspace: str, data: str, quick: bool, seeds: int) -> str:
    """Measure a table at every seed; a finished seed is kept in the workspace and not measured again.

    Args:
        page: the table with its intervals, comparisons and reading; or why it cannot be measured here.
        name: of the table.
        workspace: folder that outlives the run; pages and seeds go to its folder results.
        data: folder of the data that do not come with the project.
        quick: small sizes and few seeds, not to be quoted.
        seeds: how many; 0 leaves it to the table.

    Returns:
        The name, when it is done.
    """
    from pathlib import Path

    from benchmarks.reproduce.steps import measure

    Path(page.path).write_text(measure(name, Path(workspace) / "results", data, quick, seeds))
    return name
