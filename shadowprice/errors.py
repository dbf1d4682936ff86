"""Every error this project raises on purpose.

    ShadowpriceError                      500
    ├── InvalidInput                      400   what the caller sent is wrong; names the field and rows
    │   ├── InvalidTable                  422   a table breaks its schema
    │   ├── InvalidProblem                422   an allocation problem is malformed
    │   ├── InvalidContext                422   a request's context or partner does not fit model or campaign
    │   └── InvalidRequest                400   an inference or outcome request is malformed
    ├── NotFound                          404   a name that does not exist (model, campaign, request)
    ├── Conflict                          409   the same id was sent before with another content
    ├── NotCertified                      409   a solve that may not be published
    ├── PriceRejected                     409   a price record that may not be used
    ├── Unavailable                       503   a dependency does not answer
    ├── StorageFailed                     507   a disk is full or too small, or a file cannot be read or written
    └── MissingExtra                      501   an optional part of the package is not installed

Each class knows the HTTP status it maps to; the message names the problem, its place, and what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class ShadowpriceError(Exception):
    """Base of every deliberate error."""

    status = 500


class InvalidInput(ShadowpriceError):
    """Something the caller gave is wrong.

    ``field`` names the argument, column or JSON field; ``rows`` the first offending row numbers; ``reason`` is the
    message without them.
    """

    status = 400

    def __init__(self, message: str, *, field: str | None = None, rows: Sequence[int] = ()) -> None:
        self.reason = message
        self.field = field
        self.rows = tuple(rows)
        where = f"{field}: " if field else ""
        at = f" (first rows: {', '.join(map(str, self.rows))})" if self.rows else ""
        super().__init__(f"{where}{message}{at}")

    @classmethod
    def refuse_rows(cls, wrong: NDArray[np.bool_] | np.bool_, message: str, *, field: str) -> None:
        """Raise the error, with the first rows, where an entry of ``wrong`` (…, rows) is true."""
        if wrong.any():
            wrong = np.asarray(wrong)
            rows = np.flatnonzero(wrong.reshape(-1, wrong.shape[-1]).any(axis=0))[:5].tolist()
            raise cls(message, field=field, rows=rows)


@dataclass(frozen=True)
class TableProblem:
    """One fault of a table.

    column  None when the whole table is meant
    rows    the first offending data rows, counted from 0 (the line after a CSV header is row 0)
    count   how many rows offend; 0 when the fault is not one of rows
    lines   lines of the file in which those rows begin, counted from 1; empty where the file has no lines
    """

    table: str
    column: str | None
    reason: str
    rows: tuple[int, ...] = ()
    count: int = 0
    lines: tuple[int, ...] = ()

    @property
    def field(self) -> str:
        """``table.column``, or the table's name."""
        return self.table if self.column is None else f"{self.table}.{self.column}"

    @property
    def detail(self) -> str:
        """The reason, with the number of rows and the first ones."""
        if not self.count:
            return self.reason
        shown = ", ".join(map(str, self.rows))
        if not shown:
            return f"{self.reason} ({self.count} row{'s' * (self.count > 1)})"
        lines = ", ".join(map(str, self.lines))
        if self.count == 1:
            return f"{self.reason} (row {shown}{', line ' * bool(lines)}{lines})"
        return f"{self.reason} ({self.count} rows, first: {shown}{'; lines ' * bool(lines)}{lines})"

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


class InvalidTable(InvalidInput):
    """A table breaks its schema; nothing was written.

    ``problems`` lists every fault found; ``field`` and ``rows`` are those of the first.
    """

    status = 422

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        rows: Sequence[int] = (),
        problems: Sequence[TableProblem] = (),
    ) -> None:
        super().__init__(message, field=field, rows=rows)
        self.problems = tuple(problems)
        if self.problems:
            self.field, self.rows = self.problems[0].field, self.problems[0].rows


class InvalidProblem(InvalidInput):
    """An allocation problem is malformed."""

    status = 422


class InvalidContext(InvalidInput):
    """A request has context that the active model does not read, or lacks the partner that a limit counts."""

    status = 422


class InvalidRequest(InvalidInput):
    """An inference, authorization or outcome request is malformed."""


class NotFound(ShadowpriceError):
    """The named thing does not exist."""

    status = 404


class Conflict(ShadowpriceError):
    """Identifier that arrived before with a different content."""

    status = 409


class NotCertified(ShadowpriceError):
    """The solve is not certified well enough to publish; the last good price stays."""

    status = 409


class PriceRejected(ShadowpriceError):
    """A price record fails its checksum, goes back a version, or belongs to another campaign."""

    status = 409


class Unavailable(ShadowpriceError):
    """A dependency (feature store, ledger, metrics) does not answer."""

    status = 503


class StorageFailed(ShadowpriceError):
    """A disk is full or too small, or a file or folder cannot be read or written."""

    status = 507


class MissingExtra(ShadowpriceError):
    """An optional part of the package is needed and not installed."""

    status = 501
