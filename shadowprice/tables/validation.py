"""Checking tables where data enters: all faults at once, before anything is written."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
from numpy.typing import NDArray
from pandera.errors import SchemaError, SchemaErrorReason, SchemaErrors

from shadowprice.errors import InvalidTable
from shadowprice.tables.coercion import canonical, coerce, split_refused
from shadowprice.tables.database import Source, Tables, open_database
from shadowprice.tables.problems import Problems
from shadowprice.tables.rules import find_broken
from shadowprice.tables.schema import (
    CAMPAIGN_TABLES,
    EVENTS,
    OPTIONAL,
    SCHEMAS,
    SESSION_TABLES,
    kind_of,
    named_columns,
)
from shadowprice.tables.scratch import Scratch

Parts = pd.DataFrame | Iterable[pd.DataFrame]
"""A table in memory, or its parts in order, which are read one after the other."""


@dataclass(frozen=True, eq=False)
class SessionTables:
    """Collected vouchers and the behaviour around them (S3), checked; see ``docs/reference/tables.md``."""

    session: pd.DataFrame
    behaviour: pd.DataFrame

    def as_dict(self) -> dict[str, pd.DataFrame]:
        """Table name → table, in canonical order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def validate_tables(tables: Mapping[str, Parts]) -> Tables:
    """Check the tables and bring them into canonical form.

    Args:
        tables: table name → table, as read from anywhere; the index is ignored.

    Returns:
        The tables with canonical types (text, UTC times, int64 money), the named columns first, all of
        them present, then the feature columns by name; rows in the order given. A table of several parts is
        in a temporary file, which is deleted with the returned object.

    Raises:
        InvalidTable: with every fault of every table in ``problems``: table, column, first rows counted
            from 0, reason. A fault that hides another (a column of the wrong type) is reported alone.

    Complexity: O(rows) time; memory of the largest part, and of what the database may hold.
    """
    scratch = Scratch()
    return Tables(_whole(tables, CAMPAIGN_TABLES, scratch), scratch)


def validate_sessions(frames: Mapping[str, pd.DataFrame]) -> SessionTables:
    """Check ``session`` and ``behaviour`` as :func:`validate_tables` does the other tables."""
    return SessionTables(**_frames(_whole(frames, SESSION_TABLES, Scratch())))


def validate_some(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Check some of the tables like :func:`validate_tables`; rules that need an absent table are not applied."""
    problems = Problems()
    checked = _check(frames, CAMPAIGN_TABLES, Scratch(), problems)
    problems.refuse()
    return _frames(checked)


def _frames(sources: Mapping[str, Source]) -> dict[str, pd.DataFrame]:
    return {name: source for name, source in sources.items() if isinstance(source, pd.DataFrame)}


def _whole(tables: Mapping[str, Parts], names: Sequence[str], scratch: Scratch) -> dict[str, Source]:
    """All of ``names`` but the optional ones, checked, or a refusal."""
    problems = Problems()
    for name in names:
        if name not in tables and name not in OPTIONAL:
            problems.add(name, None, "the table is missing")
    checked = _check(tables, names, scratch, problems)
    problems.refuse()
    return checked


def _check(
    tables: Mapping[str, Parts], names: Sequence[str], scratch: Scratch, problems: Problems
) -> dict[str, Source]:
    for name in tables:
        if name not in names:
            problems.add(str(name), None, f"is not a table; the tables are {', '.join(names)}")
    checked: dict[str, Source] = {}
    given: dict[str, frozenset[str]] = {}
    for name in names:
        if name in tables:
            table = _Table(name, problems)
            given_parts = tables[name]
            parts = iter([given_parts] if isinstance(given_parts, pd.DataFrame) else given_parts)
            try:
                checked[name] = scratch.keep(name, table.check(parts))
            except InvalidTable as unreadable:
                problems.extend(unreadable.problems)
                continue
            given[name] = table.given
    with open_database(checked) as db:
        find_broken(db, given, problems)
    return checked


class _Table:
    """The parts of a table, checked one after the other."""

    def __init__(self, name: str, problems: Problems) -> None:
        self.name = name
        self.problems = problems
        self.given: frozenset[str] = frozenset()
        self._rows = 0

    def check(self, parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Return the parts with canonical types and columns; what does not fit is unknown, and a problem."""
        for part in parts:
            frame, reported = self._coerce(part.reset_index(drop=True))
            self._check_columns(frame, reported)
            known = [name for name in frame if isinstance(name, str) and kind_of(self.name, name)]
            self.given = frozenset(known)
            yield canonical(self.name, frame[known])
            self._rows += len(part)
        if not self._rows and self.name not in EVENTS:
            self.problems.add(self.name, None, "has no rows")

    def _coerce(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
        """Return the columns with canonical types, and those with a cell that does not fit."""
        twice = frame.columns[frame.columns.duplicated()].unique()
        for name in twice:
            self.problems.add(self.name, str(name), "stands more than once in the header")
        reported = {str(name) for name in twice}
        columns: dict[Any, pd.Series[Any]] = {}
        for name in frame.columns.difference(twice, sort=False):
            kind = kind_of(self.name, name) if isinstance(name, str) else None
            if kind is None:
                columns[name] = frame[name]
                continue
            own, refused = split_refused(frame[name])
            for reason, cells in refused.items():
                reported.add(name)
                self.problems.add(self.name, name, reason, cells.index.to_numpy() + self._rows, value=cells.iloc[0])
                own = own.mask(frame.index.isin(cells.index))
            columns[name], misfits = coerce(own, kind)
            for wrong, reason in misfits:
                if wrong.any():
                    reported.add(name)
                    self._report(name, reason, np.flatnonzero(wrong), frame)
        return pd.DataFrame(columns, index=frame.index), reported

    def _check_columns(self, frame: pd.DataFrame, reported: set[str]) -> None:
        schema: pa.DataFrameSchema = SCHEMAS[self.name]
        try:
            with warnings.catch_warnings():
                # pandera gathers its failure cases with a concat that pandas deprecates.
                warnings.simplefilter("ignore", FutureWarning)
                schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            for error in errors.schema_errors:
                self._translate(frame, error, reported)

    def _translate(self, frame: pd.DataFrame, error: SchemaError, reported: set[str]) -> None:
        """Add a finding of pandera in this project's words, unless the coercion has reported it already."""
        code = error.reason_code
        if code is SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME:
            name = str(error.failure_cases)
            if name not in reported:
                self.problems.add(self.name, name, "the column is missing")
        elif code is SchemaErrorReason.COLUMN_NOT_IN_SCHEMA:
            known = ", ".join(named_columns(self.name))
            reason = (
                f"is not a column of this table; it has {known}, and features are named x_… (numbers) or c_… (text)"
            )
            self.problems.add(self.name, str(error.failure_cases), reason)
        else:
            column = str(error.column_name)
            rows = error.failure_cases["index"].to_numpy()
            if code is not SchemaErrorReason.SERIES_CONTAINS_NULLS:
                self._report(column, str(error.check.error), rows, frame)
            elif column not in reported:
                self._report(column, "must not be empty", rows, frame)

    def _report(self, column: str, reason: str, rows: NDArray[Any], frame: pd.DataFrame) -> None:
        rows = np.sort(rows)
        value = frame[column].iloc[int(rows[0])]
        unknown = pd.api.types.is_scalar(value) and pd.isna(value)
        self.problems.add(self.name, column, reason, rows + self._rows, value=None if unknown else value)
