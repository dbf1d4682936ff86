"""Parts of a proposal: tables with the origins of their columns, and columns that refer to another file."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from shadowprice.mapping.columns import text_sql
from shadowprice.mapping.proposal.guesses import Proposed, hinted, likely_values, time_keys, time_reason
from shadowprice.mapping.proposal.profile import SAMPLE_ROWS, Cells, Profile
from shadowprice.mapping.sources import table_of

OVERLAP = 0.9
"""Least share of the values of a column that are keys of another file, where it refers to that file."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of one canonical table from one file.

    settings  further keys of the table, with their values
    missing   required columns that no column of the file was found for
    unused    columns that no canonical one was found for
    """

    table: str
    profile: Profile
    columns: Mapping[str, Proposed]
    numbers: Sequence[str] = ()
    texts: Sequence[str] = ()
    settings: Mapping[str, Proposed] = field(default_factory=dict)
    missing: Sequence[str] = ()
    unused: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Everything that a first mapping says.

    has_zone  whether every time of the files has its zone
    starts_at     of the campaign: the day after the log; empty of a voucher log, whose campaign has defaults
    budget_limit  of the campaign: the value that was redeemed on a mean day of the log, in the unit of the files; where
        ``counted``, the offers that were given
    counted       whether costs and budget are numbers of offers, which have no amount
    """

    parts: Sequence[Part]
    has_zone: bool
    starts_at: str
    budget_limit: str
    counted: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Required columns that no column of the files was found for."""
        return tuple(f"{part.table}.{name}" for part in self.parts for name in part.missing)


def refers(
    db: duckdb.DuckDBPyConnection,
    rows: Profile,
    key: str,
    other: Profile,
    columns: Collection[Cells],
    *,
    least: float = OVERLAP,
) -> str:
    """Return the column of ``other`` whose values are keys of ``rows``, or an empty text.

    Of several, it is the one with the name of the key, or else one with many different values. Below ``OVERLAP``, it is
    the one with the most values that are keys, at least the share ``least``.
    """
    shares = {}
    for column in sorted(columns, key=lambda each: (each.name != key, bool(each.values))):
        if column.kind == "time" or (column.values and len(column.values) < 3):
            continue
        keys = f"SELECT {key_sql(db, rows, key)} FROM {table_of(rows.source)}"
        own = f"SELECT {key_sql(db, other, column.name)} AS own FROM {table_of(other.source)} LIMIT {SAMPLE_ROWS}"
        ((share,),) = db.execute(f"SELECT avg(CAST(own IN ({keys}) AS DOUBLE)) FROM ({own})").fetchall()
        shares[column.name] = share or 0.0
        if shares[column.name] >= OVERLAP:
            return column.name
    best = max(shares, key=lambda name: shares[name], default="")
    return best if shares.get(best, 0.0) >= least else ""


def key_sql(db: duckdb.DuckDBPyConnection, rows: Profile, name: str) -> str:
    """Return a column as a mapping reads it as an identifier."""
    return text_sql(db, rows.opened.sql(name), rows.opened)


class Free:
    """Columns of a file, from which canonical ones are taken."""

    def __init__(self, rows: Profile) -> None:
        self.rows = rows
        self.columns: dict[str, Proposed] = {}
        self.names = {cells.name: cells for cells in rows.columns}

    @property
    def left(self) -> list[Cells]:
        """Columns that are not taken."""
        return list(self.names.values())

    def take(self, name: str, own: str, **more: object) -> None:
        """Take a column for a canonical one, which keeps the first that it gets."""
        if own and name not in self.columns:
            self.put(name, Proposed(own=own, **more))  # type: ignore[arg-type]

    def put(self, name: str, origin: Proposed | None) -> None:
        """Set the origin of a canonical column, if there is one, and take its own column."""
        if origin is not None:
            self.columns[name] = origin
            self.names.pop(origin.own, None)

    def first(self, name: str, cells: Iterable[Cells], reason: str = "") -> None:
        """Take the first of some columns that is left."""
        own = next((each.name for each in cells if each.name in self.names), "")
        self.take(name, own, reason=reason or "by its name or its values", check=not reason)

    def key(self, db: duckdb.DuckDBPyConnection, name: str, other: Part, column: str) -> None:
        """Take the column that refers to a column of another file."""
        key = other.columns[column].own if column in other.columns else ""
        own = refers(db, other.profile, key, self.rows, self.rows.columns) if key else ""
        self.take(name, own, reason=f"its values are {key} of {other.profile.source.file}")

    def times(self, name: str, fits: Callable[[Cells], bool], reason: str) -> None:
        """Take the time that fits: by its name, then the earliest."""
        times = [cells for cells in self.left if cells.kind == "time" and fits(cells)]
        for cells in sorted(times, key=lambda each: (not hinted(each, name), each.first is None, each.first))[:1]:
            self.take(name, cells.name, keys=time_keys(cells), reason=time_reason(cells, reason), check=True)

    def terms(self, discount: str) -> None:
        """Take the least spend and the discount of vouchers."""
        amounts = [cells for cells in self.left if cells.kind == "number"]
        self.first("min_spend", (cells for cells in amounts if hinted(cells, "min_spend of percent")))
        self.first(discount, likely_values(amounts))

    def unused(self, *used: Collection[str]) -> list[str]:
        """Return the columns that are left and not used as features."""
        return [name for name in self.names if not any(name in names for names in used)]

    def part(self, table: str, missing: Collection[str]) -> Part:
        """Return what was taken as the rows of a table."""
        return Part(
            table=table, profile=self.rows, columns=self.columns, missing=list(missing), unused=list(self.names)
        )
