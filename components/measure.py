"""Measure spend and traffic before a price is solved again."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl import Artifact, Input, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def measure(
    state: Output[Artifact],
    workspace: str,
    registered: Input[Artifact] = None,
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    jobs: dict = {},  # noqa: B006
) -> NamedTuple("Later", [("solve", dict)]):  # type: ignore[valid-type]
    """Run a :class:`operations.measure.MeasureJob`, and return the options of the solve, which are checked first."""
    arguments = dict(locals())
    from components.run import run_component
    from components.settings import split

    later = split(options, jobs or {"measure": {}})
    # The workspace has the model; the artifact keeps the way from its tables to the price.
    del arguments["registered"]
    run_component("measure", arguments)
    return (later.get("solve", {}),)
