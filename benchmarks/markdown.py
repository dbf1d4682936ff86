"""Tables in Markdown."""

from collections.abc import Iterable
from typing import Any

Results = dict[str, dict[str, Any]]
"""Benchmark → what it wrote."""


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table."""
    names = list(header)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def goals_missed(goals: Iterable[tuple[str, str, bool | None]]) -> str:
    """Number of goals that are met, and a table of the others: goal, figure, whether it is met (None: not measured)."""
    found = list(goals)
    met = sum(bool(is_met) for *_, is_met in found)
    others = [[goal, figure] for goal, figure, is_met in found if not is_met]
    return f"{met} of {len(found)} goals are met. The others:\n\n{markdown(('goal', 'measured'), others)}"
