"""Rules over several columns: keys, references between tables, sides that must agree.

A rule is a query of the rows that break it. It names the columns it needs and runs when all of them were given. It
reads only cells that are known, so what a column's own check refused is not reported twice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from shadowprice.tables.problems import SHOWN_ROWS, Problems

Given = Mapping[str, frozenset[str]]
"""Table → columns that were given; the relation of a table has all named columns, empty where they were not."""
Fault = tuple[str, str | None, str | None, str]
"""Table, column, query of the offending rows (None where the fault is not one of rows), reason."""

FUND, VOUCHER = "fund", "voucher"
PAID = f"kind IS DISTINCT FROM '{FUND}'"
"""SQL of the offers that are levels of an incentive."""


@dataclass(frozen=True)
class _Rule:
    needs: tuple[str, ...]
    unless: tuple[str, ...]
    faults: Callable[[DuckDBPyConnection, Given], Iterator[Fault]]


_RULES: list[_Rule] = []
Faults = Callable[[DuckDBPyConnection, Given], Iterator[Fault]]


def rule(*needs: str, unless: tuple[str, ...] = ()) -> Callable[[Faults], Faults]:
    """Register a rule of the columns ``needs``; it is not applied where one of ``unless`` has a fault already."""

    def register(faults: Faults) -> Faults:
        _RULES.append(_Rule(needs, unless, faults))
        return faults

    return register


def find_broken(db: DuckDBPyConnection, given: Given, problems: Problems) -> None:
    """Add every rule that the tables break, with the first rows that break it.

    Args:
        db: with a relation per table, whose column ``row`` is the place of the row.
        given: the columns that the tables came with.
        problems: where they are added.

    A rule reads its tables once; joins that do not fit into memory go to disk.
    """
    for rule in _RULES:
        places = [need.split(".") for need in rule.needs]
        sound = not any(problems.about(*column.split(".")) for column in rule.unless)
        if sound and all(table in given and column in given[table] for table, column in places):
            for table, column, query, reason in rule.faults(db, given):
                _report(db, given, problems, (table, column, query, reason))


def _report(db: DuckDBPyConnection, given: Given, problems: Problems, fault: Fault) -> None:
    table, column, query, reason = fault
    if query is None:
        problems.add(table, column, reason)
        return
    value = f'CAST("{column}" AS VARCHAR)' if column in given[table] else "NULL"
    # Most rules find nothing: the rows are counted first, and looked at where there are some. A relation (``db.sql``)
    # would be planned twice, when it is made and when it is fetched.
    ((count,),) = db.execute(f"SELECT count(DISTINCT row) FROM ({query})").fetchall()
    if not count:
        return
    if column is not None and column not in given[table]:
        problems.add(table, column, reason)
        return
    wrong = f"SELECT DISTINCT row FROM ({query}) ORDER BY row LIMIT {SHOWN_ROWS}"
    first = db.execute(f"SELECT row, {value} FROM {table} SEMI JOIN ({wrong}) USING (row) ORDER BY row").fetchall()
    problems.add(table, column, reason, [row for row, _ in first], count, first[0][1])


def repeated(table: str, *key: str, where: str = "true") -> str:
    """Return the rows whose key stands in an earlier one; a key with an empty cell is none."""
    names = ", ".join(key)
    known = " AND ".join(f"{name} IS NOT NULL" for name in key)
    return f"""
        SELECT row FROM {table} JOIN (
            SELECT {names}, min(row) AS first FROM {table} WHERE {known} AND ({where})
            GROUP BY {names} HAVING count(*) > 1
        ) USING ({names}) WHERE row > first AND ({where})"""


def unknown(table: str, column: str, known: str, where: str = "true") -> str:
    """Return the rows whose cell is not in the first column of the query ``known``."""
    return f"""
        SELECT row FROM {table} ANTI JOIN ({known}) AS known(id) ON {column} = known.id
        WHERE {column} IS NOT NULL AND ({where})"""


def accounts(side: str) -> str:
    """Return the identifiers of the accounts of a side."""
    return f"SELECT account_id FROM account WHERE side = '{side}'"


def joined(table: str, other: str, key: str) -> str:
    """Return the rows of a table, as ``t``, beside those of the other with the same key, as ``o``."""
    return f"SELECT t.row FROM {table} AS t JOIN {other} AS o ON t.{key} = o.{key}"
