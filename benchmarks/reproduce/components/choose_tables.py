"""Reproduce, step 1: which tables are meant."""

from kfp import dsl

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def choose_tables(tables: list) -> list:
    """Check the names before anything is measured.

    Args:
        tables: names; empty for all.

    Returns:
        The names, each a step of its own.
    """
    from benchmarks.reproduce.steps import choose

    return choose(tables)
