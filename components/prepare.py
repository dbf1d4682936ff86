"""Step 1: load a data set, check it, and hand on its canonical tables."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def prepare(tables: Output[Dataset], dataset: str, data: str, seed: int, options: dict) -> None:
    """Load and check a data set; a bad table stops the pipeline here, before anything is written.

    Args:
        tables: the canonical tables, the split, the notes and, where known, the truth.
        dataset: world, tables, o2o or thornton.
        data: folder of the files, for data sets that read files.
        seed: for generated data.
        options: what the data set takes besides.
    """
    from pathlib import Path

    from shadowprice.datasets.package import prepare as step

    found = step(dataset, data, seed, Path(tables.path), **options)
    for name, text in found.notes.items():
        tables.metadata[name] = text
