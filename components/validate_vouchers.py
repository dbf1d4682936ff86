"""Vouchers, step 1: check the sessions and hand them on."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def validate_vouchers(sessions: Output[Dataset], data: str, test_from: str, seed: int, options: dict) -> None:
    """Check sessions and behaviour; a bad table stops the pipeline here, before anything is written.

    Args:
        sessions: the checked tables and when the test begins.
        data: folder of session and behaviour tables; empty to generate some.
        test_from: first instant of the test, where data are given.
        seed: for generated data.
        options: of the generator.
    """
    from pathlib import Path

    from shadowprice.learning.vouchers import prepare

    found = prepare(Path(sessions.path), data, test_from, seed, options)
    for name, text in found.notes.items():
        sessions.metadata[name] = text
