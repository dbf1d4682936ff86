"""Files that a data set reads, found before anything of it is read."""

from collections.abc import Mapping, Sequence
from glob import iglob
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from shadowprice.checks import require
from shadowprice.datasets.registry import loader_of
from shadowprice.errors import NotFound
from shadowprice.mapping import read_mapping
from shadowprice.mapping.description import DEMAND, Source

HEAD = 1 << 16
GENERATED = ("funds", "vouchers")
"""Data sets that are generated where no folder is given."""
FOLDERS = ("tables", "o2o", *GENERATED)
"""Data sets whose ``data`` is a folder."""


def dataset_of(path: Path) -> str:
    """Return the name of the data set that a folder or a mapping holds: ``vouchers``, ``tables`` or ``mapping``.

    Raises:
        NotFound: there is no such mapping.
        InvalidInput: the mapping is wrong.
    """
    if path.is_dir():
        return "vouchers" if any(path.glob("session.*")) else "tables"
    return "vouchers" if "session" in read_mapping(path).tables else "mapping"


def is_delivery(name: str, data: str) -> bool:
    """Return whether the offers of a user's files are places in segments, of which the column ``demand`` is known.

    Raises:
        NotFound, InvalidInput: as :func:`input_files`.
    """
    if name == "mapping":
        return any(DEMAND in part.columns for part in read_mapping(data).tables.get("offer", ()))
    if name != "tables":
        return name == "funds"
    for file in input_files(name, data, {}):
        if file.stem == "offer":
            offers = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
            if DEMAND in offers and offers[DEMAND].notna().any():
                return True
    return False


def input_files(name: str, data: str, options: Mapping[str, Any]) -> list[Path]:
    """Return the files that a data set will read, sorted; none where it is generated.

    Args:
        name: of the data set.
        data: folder or mapping, as for :func:`~shadowprice.datasets.registry.load`; empty where it reads none.
        options: of the data set.

    Raises:
        NotFound: there is no such data set, folder, mapping or file.
        InvalidInput: an option that the data set does not have, no ``data`` where it is needed, or a wrong mapping.
    """
    loader_of(name, options)
    if _is_mapping(name, data):
        return _of_mapping(_given(data, "a mapping; `shadowprice init` writes one"))
    if name in FOLDERS and (data or name not in GENERATED):
        folder = Path(_given(data, "the folder of the files"))
        if not folder.is_dir():
            raise NotFound(f"data: there is no folder {folder}; correct its name")
        return sorted(path for path in folder.iterdir() if path.suffix in (".csv", ".parquet"))
    return []


def accounts_in(name: str, data: str, options: Mapping[str, Any]) -> int:
    """About how many accounts a data set has, by the sizes of its files or options; nothing is read but their heads."""
    if _is_mapping(name, data):
        held = read_mapping(data)
        parts = next(held.tables[table] for table in ("account", "session", "exposure") if table in held.tables)
        return sum(map(_rows, {file for part in parts for file in _of_source(held.folder, part.source)}))
    files = input_files(name, data, options)
    if files:
        return sum(_rows(file) for file in files if file.stem == "account" or name not in ("tables", "funds"))
    return sum(int(options.get(option, 0)) for option in ("customers", "merchants", "rows", "sessions"))


def _rows(file: Path) -> int:
    """Rows of a file: of Parquet as it says itself, of CSV by the length of its first lines."""
    if file.suffix.lower() in (".parquet", ".pq"):
        return int(pq.read_metadata(file).num_rows)
    with file.open("rb") as content:
        head = content.read(HEAD)
    return round(file.stat().st_size * head.count(b"\n") / max(len(head), 1))


def _given(data: str, kind: str) -> str:
    require(data, "data", f"must be {kind}")
    return data


def _is_mapping(name: str, data: str) -> bool:
    return name == "mapping" or (name == "vouchers" and Path(data).is_file())


def _of_mapping(data: str) -> list[Path]:
    mapping = read_mapping(data)
    paths = {Path(data)}
    for part in (part for parts in mapping.tables.values() for part in parts):
        paths.update(_of_source(mapping.folder, part.source))
    return sorted(paths)


def _of_source(folder: Path, source: Source) -> Sequence[Path]:
    if source.file:
        files = [folder / path for path in iglob(source.file, root_dir=folder, recursive=True)]
        if not files:
            raise NotFound(f"sources.{source.name}.file: there is no file {folder / source.file}; correct its name")
        return files
    if source.attach and source.type in ("duckdb", "sqlite"):
        return [folder / source.attach]
    return []
