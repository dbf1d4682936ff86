"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Results = dict[str, dict[str, Any]]
"""Benchmark → what it wrote."""


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table."""
    names = list(header)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
