"""Decide a list of accounts, here or as a Ray job."""

from kfp import dsl
from kfp.dsl import Dataset, Markdown, Metrics, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def decide(
    accounts: str,
    workspace: str,
    out: Output[Dataset],
    summary: Output[Markdown],
    metrics: Output[Metrics],
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    jobs: dict = {},  # noqa: B006
) -> None:
    """Run an :class:`operations.decide.DecideJob`, in this container or as a Ray job."""
    arguments = dict(locals())
    from components.run import run_component

    run_component("decide", arguments)
