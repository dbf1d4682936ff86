"""Accounts that a campaign can reach, and quantities of the time before it: what an experiment is compared on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from operations.common.workspace import MODEL, POPULATION
from shadowprice.arms import Unit
from shadowprice.campaign import SIDES
from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups
from shadowprice.learning.bundle import read_meta
from shadowprice.mapping.files.parquet import read_frame
from shadowprice.pacing.population import ACCOUNTS

OTHER = dict(zip(SIDES, reversed(SIDES), strict=True))


def accounts_of(
    file: Path | None, campaign: Path, sides: Sequence[str], *, partners: bool, features: pd.DataFrame | None
) -> pd.DataFrame | None:
    """Return the list of accounts, with ``account_id`` alone; None where there is none.

    Args:
        file: parquet file with account_id, or None.
        campaign: workspace, or the campaign file in it, whose model has accounts.
        sides: that asked.
        partners: whether the partners of these sides are listed, and not the accounts that asked.
        features: rows of accounts, which are the list where there is no other.

    Raises:
        InvalidInput: the file cannot be read or has no account_id.
    """
    if file is not None:
        return read_accounts(file, ("account_id",))[["account_id"]].drop_duplicates()
    workspace = campaign if campaign.is_dir() else campaign.parent
    if (workspace / MODEL).exists():
        version = str(read_meta((workspace / MODEL).resolve())["model_version"])
        wanted = {OTHER[side] if partners else side for side in sides}  # type: ignore[index]
        places = [workspace / POPULATION / version / side / ACCOUNTS for side in sorted(wanted)]
        if all(place.exists() for place in places):
            names = [pq.read_table(place, columns=["account_id"])["account_id"].to_pandas() for place in places]
            return pd.DataFrame({"account_id": pd.concat(names, ignore_index=True)}).drop_duplicates()
    return None if features is None else features[["account_id"]]


def features_of(file: Path | None, segment: str, taken: Collection[str]) -> tuple[pd.DataFrame | None, tuple[str, ...]]:
    """Return one row of features for each account, and the names of those that are numbers.

    Raises:
        InvalidInput: the file cannot be read, has not one row for each account, lacks the segment, or has columns of
            the log, ``taken``; or there is a segment and no file.
    """
    if file is None:
        if segment:
            raise InvalidInput("needs the file of features that has it", field="segment")
        return None, ()
    features = read_accounts(file, ("account_id",))
    if segment and segment not in features:
        raise InvalidInput(f"has no column {[segment]}; it has {list(features.columns)}", field=str(file))
    if features["account_id"].duplicated().any():
        raise InvalidInput("must have one row for each account", field=f"{file}.account_id")
    taken_twice = (set(features.columns) & {*taken, "group", "period"}) - {"account_id"}
    if taken_twice:
        raise InvalidInput(f"has columns of the log, {sorted(taken_twice)}; rename them", field=str(file))
    return features, tuple(name for name in features.select_dtypes("number").columns if name != segment)


def with_features(rows: pd.DataFrame, features: pd.DataFrame | None, segment: str) -> pd.DataFrame:
    """Return rows with the features of their accounts; accounts without have the segment ``unknown``."""
    if features is None:
        return rows
    joined = rows.merge(features, on="account_id", how="left")
    if segment:
        joined[segment] = joined[segment].astype(object).where(joined[segment].notna(), "unknown")
    return joined


def in_units(accounts: pd.DataFrame, unit: Unit, groups: Groups | None) -> pd.DataFrame:
    """Return a list of accounts with the column of their unit, as requests have it."""
    if unit == "partner":
        return accounts.assign(partner_id=accounts["account_id"])
    if unit == "cluster" and groups is not None:
        return accounts.assign(group=groups.units(accounts["account_id"].tolist()))
    return accounts


def read_accounts(file: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return a Parquet file of the user that has some columns, all of which are identifiers.

    Raises:
        InvalidInput: it cannot be read, lacks one of them, or a cell of them is no identifier.
    """
    try:
        frame = read_frame(file)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(file)) from error
    missing = [name for name in columns if name not in frame]
    if missing:
        raise InvalidInput(f"has no column {missing}; it has {list(frame.columns)}", field=str(file))
    return frame.assign(**{name: _identifiers(frame[name], f"{file}.{name}") for name in columns})


def read_outcomes(file: Path, request_id: pd.Series[Any]) -> pd.DataFrame:
    """Return the outcomes x_… of requests, in their order, from a Parquet file; NaN of one that it lacks.

    Raises:
        InvalidInput: the file has a request twice, no such column, or none of the requests.
    """
    table = read_accounts(file, ("request_id",))
    names = [name for name in table.columns if name.startswith("x_")]
    if not names or table["request_id"].duplicated().any():
        raise InvalidInput("must have request_id, each once, and columns x_…", field="outcomes")
    if not request_id.isin(table["request_id"]).any():
        raise InvalidInput("has no request of the log", field="outcomes")
    return table.set_index("request_id")[names].reindex(request_id).astype("float64")


def _identifiers(column: pd.Series[Any], place: str) -> pd.Series[Any]:
    """Return identifiers as text; a program that writes tables makes whole numbers floats where a cell is unknown."""
    if column.isna().any():
        raise InvalidInput("must not be empty", field=place)
    if pd.api.types.is_float_dtype(column.dtype):
        if ((column % 1 != 0) | (column.abs() > 2**53)).any():
            raise InvalidInput("has fractions or numbers beyond 2^53; write identifiers as text", field=place)
        column = column.astype("int64")
    return column.astype(str)
