"""Tables in Markdown."""

from collections.abc import Callable, Iterable
from typing import Any

Results = dict[str, dict[str, Any]]
"""Benchmark → what it wrote."""
Column = tuple[str, str | Callable[[Any], object]]
"""Heading, and a row's cell: a format of its keys, or a function."""


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(header)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def grid(rows: Iterable[dict[str, Any]], *columns: Column) -> str:
    """A table with a line for each row."""
    cells = [cell.format_map if isinstance(cell, str) else cell for _, cell in columns]
    return markdown([head for head, _ in columns], [[cell(row) for cell in cells] for row in rows])


def goals_missed(goals: Iterable[tuple[str, str, bool | None]]) -> str:
    """Number of goals that are met, and a table of the others: goal, figure, whether it is met (None: not measured)."""
    found = list(goals)
    met = sum(bool(is_met) for *_, is_met in found)
    others = [[goal, figure] for goal, figure, is_met in found if not is_met]
    return f"{met} of {len(found)} goals are met. The others:\n\n{markdown(('goal', 'measured'), others)}"
