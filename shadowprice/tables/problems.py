"""Faults of tables over all parts, each with its first rows and their number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from shadowprice.errors import InvalidTable, TableProblem

SHOWN_PROBLEMS = 25
SHOWN_ROWS = 5
SHOWN_CHARACTERS = 40


@dataclass
class _Found:
    value: object = None
    rows: list[int] = field(default_factory=list)
    count: int = 0


class Problems:
    """Faults in the order in which they were found; one that is found again in a later part is counted there."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, str], _Found] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self,
        table: str,
        column: str | None,
        reason: str,
        rows: Sequence[int] | NDArray[Any] = (),
        count: int | None = None,
        value: object = None,
    ) -> None:
        """Add a fault.

        Args:
            rows: the rows that have it, counted from 0, in order; none where it belongs to no row.
            count: how many rows have it, where ``rows`` are only the first.
            value: the cell of the first row, None where it is empty.
        """
        fault = self._found.setdefault((table, column, reason), _Found(value))
        fault.rows += [int(row) for row in rows[: SHOWN_ROWS - len(fault.rows)]]
        fault.count += len(rows) if count is None else count

    def about(self, table: str, column: str) -> bool:
        """Return whether a column has a fault."""
        return any(place[:2] == (table, column) for place in self._found)

    def extend(self, problems: Iterable[TableProblem]) -> None:
        """Add faults that were found elsewhere."""
        for fault in problems:
            self.add(fault.table, fault.column, fault.reason, fault.rows, fault.count)

    def listed(self) -> list[TableProblem]:
        """Return the faults, with the first offending value where one column is meant."""
        return [
            TableProblem(table, column, _with_value(reason, column, fault.value), tuple(fault.rows), fault.count)
            for (table, column, reason), fault in self._found.items()
        ]

    def refuse(self) -> None:
        """Raise :class:`InvalidTable` with all faults, if there are any."""
        if not self._found:
            return
        problems = self.listed()
        shown = [f"  {fault}" for fault in problems[:SHOWN_PROBLEMS]]
        if len(problems) > SHOWN_PROBLEMS:
            shown.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
        count = "1 fault" if len(problems) == 1 else f"{len(problems)} faults"
        message = "\n".join([f"the tables cannot be used, {count} (rows are counted from 0):", *shown])
        raise InvalidTable(message, problems=problems)


def _with_value(reason: str, column: str | None, value: object) -> str:
    if column is None or value is None:
        return reason
    return f"{reason}; got {str(value)[:SHOWN_CHARACTERS]!r}"
