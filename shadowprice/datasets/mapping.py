"""The user's own files, described by a mapping."""

from pathlib import Path

from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput
from shadowprice.mapping import map_tables, read_mapping


def load(
    data: str | None,
    *,
    seed: int = 0,  # noqa: ARG001 - every data set takes one; nothing is drawn here
    outside: bool = False,
) -> Dataset:
    """Read the files that the mapping ``data`` describes, with ``outside`` also those outside of its folder.

    ``docs/reference/mapping.md`` describes mappings.
    """
    if data is None:
        raise InvalidInput("must be a mapping; see docs/reference/mapping.md", field="data")
    mapping = read_mapping(data)
    tables = map_tables(mapping, outside=outside)
    return Dataset(
        name="mapping",
        tables=tables,
        split=Split.between(**mapping.split),
        currency=mapping.currency,
        notes={"source": f"the files of {Path(data).name}", **tables.notes},
    )
