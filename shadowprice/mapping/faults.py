"""Faults of a user's own files in one message."""

from collections.abc import Sequence

from shadowprice.errors import InvalidTable, TableProblem
from shadowprice.tables.problems import SHOWN_PROBLEMS

MAPPING = "the mapping"


def unusable(problems: Sequence[TableProblem], hints: Sequence[str] = ()) -> InvalidTable:
    """Return the error that lists faults by file, column, row and line, and then hints."""
    lines = [f"  {_place(problem)}: {problem.detail}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
    count = "1 fault" if len(problems) == 1 else f"{len(problems)} faults"
    head = f"the files cannot be used, {count} (rows are counted from 0, after the header):"
    return InvalidTable("\n".join([head, *lines, *(f"  {hint}" for hint in hints)]), problems=problems)


def _place(problem: TableProblem) -> str:
    if problem.table == MAPPING:
        return f"{MAPPING}, {problem.column}"
    return problem.table if problem.column is None else f"{problem.table}, column {problem.column!r}"
