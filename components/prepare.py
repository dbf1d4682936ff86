"""Load a data set, check it, and hand on its canonical tables."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def prepare(tables: Output[Dataset], dataset: str, data: str, seed: int, options: dict) -> None:
    """Run a :class:`operations.prepare.PrepareJob`."""
    arguments = dict(locals())
    from components.run import run_component

    tables.metadata.update(run_component("prepare", arguments))
