"""Turn the served log into rows to train on."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def harvest(
    tables: Input[Dataset],
    harvested: Output[Dataset],
    metrics: Output[Metrics],
    workspace: str,
    log: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Run a :class:`operations.harvest.HarvestJob`."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("harvest", arguments)
