"""Checking tables where data enters: all faults at once, before anything is written."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError, SchemaErrorReason, SchemaErrors

from shadowprice.errors import InvalidTable, TableProblem
from shadowprice.tables.coercion import canonical, coerce
from shadowprice.tables.database import Tables
from shadowprice.tables.rules import broken_rules, problem
from shadowprice.tables.schema import (
    CAMPAIGN_TABLES,
    EVENTS,
    OPTIONAL,
    SCHEMAS,
    SESSION_TABLES,
    kind_of,
    named_columns,
)

SHOWN_PROBLEMS = 25


@dataclass(frozen=True, eq=False)
class SessionTables:
    """Collected vouchers and the behaviour around them (S3), checked; see ``docs/reference/tables.md``."""

    session: pd.DataFrame
    behaviour: pd.DataFrame

    def as_dict(self) -> dict[str, pd.DataFrame]:
        """Table name → table, in canonical order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def validate_tables(frames: Mapping[str, pd.DataFrame]) -> Tables:
    """Check and canonicalise the tables.

    Args:
        frames: table name → table, as read from anywhere; the index is ignored.

    Returns:
        The tables with canonical types (text, UTC times, int64 money), the named columns first, all of
        them present, then the feature columns by name; rows in the order given.

    Raises:
        InvalidTable: with every fault of every table in ``problems``: table, column, first rows counted
            from 0, reason. A fault that hides another (a column of the wrong type) is reported alone.

    O(rows); 300,000 exposures with outcomes take a few seconds.
    """
    return Tables(_whole(frames, CAMPAIGN_TABLES))


def validate_sessions(frames: Mapping[str, pd.DataFrame]) -> SessionTables:
    """Check and canonicalise ``session`` and ``behaviour`` as :func:`validate_tables` does the others."""
    return SessionTables(**_whole(frames, SESSION_TABLES))


def validate_some(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Check some of the tables like :func:`validate_tables`; rules that need an absent table are not applied."""
    checked, problems = _check(frames, CAMPAIGN_TABLES)
    _refuse(problems)
    return checked


def _whole(frames: Mapping[str, pd.DataFrame], tables: Sequence[str]) -> dict[str, pd.DataFrame]:
    """All of ``tables`` but the optional ones, checked, or a refusal."""
    missing = [
        TableProblem(name, None, "the table is missing")
        for name in tables
        if name not in frames and name not in OPTIONAL
    ]
    checked, problems = _check(frames, tables)
    _refuse([*missing, *problems])
    return checked


def _check(
    frames: Mapping[str, pd.DataFrame], tables: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], list[TableProblem]]:
    problems = [
        TableProblem(str(name), None, f"is not a table; the tables are {', '.join(tables)}")
        for name in frames
        if name not in tables
    ]
    coerced = {}
    for name in tables:
        if name in frames:
            frame, misfits = _coerce(name, frames[name].reset_index(drop=True))
            coerced[name] = frame
            problems += misfits + _check_columns(name, frame, misfits)
    problems += broken_rules(coerced)
    if problems:
        return {}, problems
    return {name: canonical(name, frame) for name, frame in coerced.items()}, []


def _coerce(table: str, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[TableProblem]]:
    twice = frame.columns[frame.columns.duplicated()].unique()
    problems = [TableProblem(table, str(name), "stands more than once in the header") for name in twice]
    if not len(frame) and table not in EVENTS:
        problems.append(TableProblem(table, None, "has no rows"))
    columns: dict[Any, pd.Series[Any]] = {}
    for name in frame.columns.difference(twice, sort=False):
        kind = kind_of(table, name) if isinstance(name, str) else None
        if kind is None:
            columns[name] = frame[name]
            continue
        columns[name], misfits = coerce(frame[name], kind)
        for wrong, reason in misfits:
            if wrong.any():
                problems.append(problem(table, name, reason, np.flatnonzero(wrong), frame))
    return pd.DataFrame(columns, index=frame.index), problems


def _check_columns(table: str, frame: pd.DataFrame, misfits: list[TableProblem]) -> list[TableProblem]:
    schema: pa.DataFrameSchema = SCHEMAS[table]
    reported = {misfit.column for misfit in misfits}
    try:
        with warnings.catch_warnings():
            # pandera gathers its failure cases with a concat that pandas deprecates.
            warnings.simplefilter("ignore", FutureWarning)
            schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        found = (_problem(table, frame, error, reported) for error in errors.schema_errors)
        return [fault for fault in found if fault is not None]
    return []


def _problem(table: str, frame: pd.DataFrame, error: SchemaError, reported: set[str | None]) -> TableProblem | None:
    """Translate a finding of pandera into this project's words; None where the coercion has reported it already."""
    code = error.reason_code
    if code is SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME:
        name = str(error.failure_cases)
        return None if name in reported else TableProblem(table, name, "the column is missing")
    if code is SchemaErrorReason.COLUMN_NOT_IN_SCHEMA:
        known = ", ".join(named_columns(table))
        reason = f"is not a column of this table; it has {known}, and features are named x_… (numbers) or c_… (text)"
        return TableProblem(table, str(error.failure_cases), reason)
    column = str(error.column_name)
    rows = error.failure_cases["index"].to_numpy()
    if code is SchemaErrorReason.SERIES_CONTAINS_NULLS:
        return None if column in reported else problem(table, column, "must not be empty", rows, frame)
    if code is SchemaErrorReason.SERIES_CONTAINS_DUPLICATES:
        return problem(table, column, "must be unique, and stands earlier already", rows, frame)
    return problem(table, column, str(error.check.error), rows, frame)


def _refuse(problems: list[TableProblem]) -> None:
    if not problems:
        return
    shown = [f"  {fault}" for fault in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        shown.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
    count = "1 fault" if len(problems) == 1 else f"{len(problems)} faults"
    message = "\n".join([f"the tables cannot be used, {count} (rows are counted from 0):", *shown])
    raise InvalidTable(message, problems=problems)
