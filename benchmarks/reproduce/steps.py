"""Measuring tables one by one into a folder, as the steps of a pipeline do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.reproduce.__main__ import reproduce
from benchmarks.reproduce.cache import Cache
from benchmarks.reproduce.index import INDEX, write_index
from benchmarks.reproduce.registry import TABLES
from benchmarks.reproduce.table import DATA_VARIABLE
from shadowprice.errors import InvalidInput, ShadowpriceError

PAGES, SEEDS = "pages", "seeds"


class NotMeasured(ShadowpriceError):
    """A table failed; what it printed is in the log, and its finished seeds are kept."""


def choose(names: Sequence[str]) -> list[str]:
    """The tables that are meant, in the registry's order; all when none is named.

    Raises:
        InvalidInput: there is no such table.
    """
    if unknown := sorted(set(names) - set(TABLES)):
        raise InvalidInput(f"no table is named {', '.join(unknown)}; there are {', '.join(TABLES)}", field="tables")
    return [name for name in TABLES if name in names or not names]


def measure(name: str, folder: Path, data: str, quick: bool, seeds: int) -> str:
    """Measure one table into ``folder`` and return its page, or why it cannot be measured here.

    Args:
        name: of a registered table.
        folder: gets ``pages/<name>.md`` and ``.json``, and the finished seeds, which are not measured again.
        data: folder of the data that do not come with the project; empty where they usually are.
        quick: small sizes and few seeds.
        seeds: how many; 0 leaves it to the table.

    Raises:
        NotMeasured: it failed.
    """
    if data:
        os.environ[DATA_VARIABLE] = data
    module = TABLES[choose([name])[0]]
    if reason := import_module(module).TABLE.missing():
        return f"{name} was not measured: {reason}\n"
    if reproduce({name: module}, Cache(folder / SEEDS), folder / PAGES, quick=quick, seeds=seeds or None):
        raise NotMeasured(f"table {name!r} failed; its finished seeds are kept in {folder / SEEDS}")
    return (folder / PAGES / f"{name}.md").read_text()


def index(folder: Path, names: Sequence[str]) -> str:
    """Write the front page of the tables of ``names`` that are measured in ``folder`` and return it."""
    (folder / PAGES).mkdir(parents=True, exist_ok=True)
    write_index(folder / PAGES, names)
    return (folder / PAGES / INDEX).read_text()
