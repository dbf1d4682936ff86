"""Reproduce, step 3: the front page of the results."""

from kfp import dsl
from kfp.dsl import Markdown, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def index_tables(front: Output[Markdown], workspace: str, measured: list) -> None:
    """List the pages of this run, with what each measures and how long that took.

    Args:
        front: the list.
        workspace: folder with the results.
        measured: names of the tables of the steps before.
    """
    from pathlib import Path

    from benchmarks.reproduce.steps import index

    Path(front.path).write_text(index(Path(workspace) / "results", measured))
