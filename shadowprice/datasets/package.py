"""A data set as one folder: tables, split, truth and notes, as the steps of a pipeline hand it on."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from shadowprice.datasets.folder import open_tables, read_sessions, write_tables
from shadowprice.datasets.registry import Dataset, load
from shadowprice.datasets.split import Split
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole
from shadowprice.progress import Stages

META, SESSIONS = "dataset.json", "sessions"
TRUTH = "truth.parquet"


def prepare(
    name: str, data: str | None, seed: int, out: Path, check: Callable[[Dataset], Dataset], options: Mapping[str, Any]
) -> Dataset:
    """Load a data set, check it, and write it to ``out``; nothing is written when a table is bad.

    Args:
        name, data, seed: as of :func:`~shadowprice.datasets.registry.load`.
        out: folder that is written.
        check: returns the data set to use, or raises an error.
        options: what the data set takes; a whole number may come as 5.0 through JSON, and is an integer again.
    """
    with Stages("prepare", 3) as stage:
        stage("load and check")
        dataset = load(name, data or None, seed, **{option: _whole(value) for option, value in options.items()})
        stage("count rows")
        dataset = check(dataset)
        stage("write")
        save_dataset(dataset, out)
    return dataset


def read_meta(folder: Path) -> dict[str, Any]:
    """Content of dataset.json of a prepared folder, or :class:`NotFound`."""
    if not (folder / META).exists():
        raise NotFound(f"no data set in {folder}; run `shadowprice job prepare` first")
    try:
        meta: dict[str, Any] = read_json(folder / META)
    except (OSError, ValueError) as error:
        fault = f"cannot be read: {error}; run `shadowprice job prepare` again"
        raise InvalidInput(fault, field=str(folder / META)) from error
    return meta


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def save_dataset(dataset: Dataset, folder: Path) -> None:
    """Write ``folder``: tables/, dataset.json, sessions/ of vouchers and, where the truth is known, truth.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(dataset.tables, folder / "tables")
    if dataset.sessions is not None:
        write_tables(dataset.sessions, folder / SESSIONS)
    if isinstance(dataset.truth, pd.DataFrame):
        dataset.truth.to_parquet(folder / TRUTH, index=False)
    elif dataset.truth is not None:
        shutil.copyfile(dataset.truth, folder / TRUTH)
    meta = {
        "name": dataset.name,
        "split": dataset.split.to_dict(),
        "notes": dataset.notes,
        "confounders": dataset.confounders,
        "currency": dataset.currency,
    }
    write_whole(folder / META, json.dumps(meta, indent=1))


def load_dataset(folder: Path) -> Dataset:
    """Read what :func:`save_dataset` wrote, or :class:`NotFound`."""
    meta = read_meta(folder)
    truth, sessions = folder / TRUTH, folder / SESSIONS
    return Dataset(
        name=meta["name"],
        tables=open_tables(folder / "tables"),
        sessions=read_sessions(sessions) if sessions.exists() else None,
        split=Split.from_dict(meta["split"]),
        truth=truth if truth.exists() else None,
        confounders=meta["confounders"],
        currency=meta["currency"],
        notes=meta["notes"],
    )
