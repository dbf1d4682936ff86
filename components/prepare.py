"""Load a data set, check it, and hand on its canonical tables."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def prepare(
    tables: Output[Dataset],
    dataset: str,
    data: str,
    workspace: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    harvest: dict = {},  # noqa: B006
    featurize: dict = {},  # noqa: B006
    train: dict = {},  # noqa: B006
    evaluate: dict = {},  # noqa: B006
    solve: dict = {},  # noqa: B006
    register: dict = {},  # noqa: B006
) -> None:
    """Run a :class:`operations.prepare.PrepareJob`, after a check of the workspace and the options of later steps."""
    arguments = dict(locals())
    from components.run import run_component

    tables.metadata.update(run_component("prepare", arguments))
