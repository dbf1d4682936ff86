"""Files of an invented company: those from which its mapping reads the given tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

MONEY = ("amount", "face_value", "min_spend")
"""Columns of minor units, written in major ones with a decimal comma."""


def write_files(folder: Path, mapping: Path, tables: Mapping[str, pd.DataFrame], **campaign: str) -> Path:
    """Write each source of a mapping as a CSV file, and the mapping; return its path in the folder.

    ``tables`` are canonical ones by the source that they are read from, with features in the order in which the mapping
    names them. ``campaign`` are columns of the campaign with other values.
    """
    described = yaml.safe_load(mapping.read_text())
    described["campaign"] |= campaign
    folder.mkdir(parents=True, exist_ok=True)
    entries = [entry for each in described["tables"].values() for entry in (each if isinstance(each, list) else [each])]
    for entry in entries:
        name = entry["from"]
        _file(tables[name], entry, described["timezone"]).to_csv(folder / f"{name}.csv", sep=";", index=False)
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(described, allow_unicode=True, sort_keys=False))
    return path


def _file(table: pd.DataFrame, entry: Mapping[str, Any], zone: str) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, given in entry["columns"].items():
        described = {"column": given} if isinstance(given, str) else given
        if "expression" in described:
            described = {"column": described["expression"].split('"')[1]}
        if "column" in described:
            columns[described["column"]] = _written(table[name], described, zone)
    left = {kind: iter(names) for kind, names in entry.get("features", {}).items()}
    for name in [name for name in table if str(name).startswith(("x_", "c_"))] if left else ():
        columns[next(left["numbers" if str(name).startswith("x_") else "texts"])] = table[name]
    return pd.DataFrame(columns)


def _written(values: Any, described: Mapping[str, Any], zone: str) -> Any:
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        form = described.get("format", "%Y-%m-%dT%H:%M:%S")
        if form == "seconds":
            return values.dt.strftime("%s")
        return values.dt.tz_convert(described.get("timezone", zone)).dt.strftime(form)
    if "values" in described:
        return values.astype(str).map({canonical: own for own, canonical in described["values"].items()})
    if values.name in MONEY:
        return values.map(lambda minor: f"{minor / 100:.2f}".replace(".", ","))
    return values
