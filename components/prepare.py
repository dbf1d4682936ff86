"""Load a data set, check it, and hand on its canonical tables."""

from typing import NamedTuple

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
    jobs: dict = {},  # noqa: B006
) -> NamedTuple(  # type: ignore[valid-type]
    "Later",
    [
        ("harvest", dict),
        ("featurize", dict),
        ("train", dict),
        ("evaluate", dict),
        ("register", dict),
        ("promote", dict),
        ("measure", dict),
        ("solve", dict),
        ("canary", bool),
    ],
):
    """Run a :class:`operations.prepare.PrepareJob`, and return the options of later steps, which are checked first."""
    arguments = dict(locals())
    from components.run import run_component
    from components.settings import split

    later = split(options, jobs or {"prepare": {}})
    tables.metadata.update(run_component("prepare", arguments))
    canary = later.get("promote", {}).pop("canary", False)
    names = ("harvest", "featurize", "train", "evaluate", "register", "promote", "measure", "solve")
    return (*(later.get(name, {}) for name in names), canary)
