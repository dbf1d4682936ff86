"""Write a measured table as a page of Markdown and as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from research.registry import TABLES
from research.summary import NOT_DIFFERENT, Comparison, Summary, beside, show
from research.table import Table
from research.took import Took
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.files import write_whole

MOST_SENTENCES = 3
"""Longest verdict and longest reading of a page."""


def markdown(table: Table, summary: Summary, took: Took, quick: bool, figures: Sequence[str] = ()) -> str:
    """Return the page: verdict, our figures beside the published ones, paired differences, reading, and drawings."""
    on = f", on {took.measured}" if took.measured else ""
    size = "**Quick mode: small sizes, few seeds; not to be quoted.** " if quick else ""
    lines = [
        f"# {table.title}",
        "",
        *_verdict(table, summary),
        f"Answers: {table.source}.",
        f"Measured on: {table.data}.",
        f"{size}{summary.seeds} seed{'s' * (summary.seeds != 1)}, {took.seconds:.0f} s{on}.",
        "",
        *_grid(table, summary),
    ]
    shown = [pair for pair in table.compare if not _in_grid(summary, pair)]
    if shown and summary.seeds > 1:
        lines += ["", *_differences(shown, summary)]
    lines += ["", f"**Reading.** {_reading(table, summary)}", ""]
    for file in figures:
        lines += [f"![{Path(file).stem.replace('_', ' ')}]({file})", ""]
    return "\n".join(lines)


def _verdict(table: Table, summary: Summary) -> list[str]:
    """Return the paragraph that opens the page: the primary comparison, and how many seeds it was given."""
    primary = table.primary
    named = f"**Verdict.** {summary.sentence(*primary.comparison)}"
    if summary.seeds == 1:
        return [f"{named}. The data are fixed, so intervals are those in the table.", ""]
    return [
        f"{named}. {table.seeds or primary.seeds} seeds detect {primary.effect:g} with {primary.power:.0%} power.",
        "",
    ]


def _reading(table: Table, summary: Summary) -> str:
    """Return the reading of the page.

    Raises:
        InvalidInput: it has more than :data:`MOST_SENTENCES` sentences.
    """
    text = table.reading(summary)
    if len(sentences(text)) > MOST_SENTENCES:
        raise InvalidInput(
            f"must have at most {MOST_SENTENCES} sentences; the table of differences has every comparison",
            field="reading",
        )
    return text


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; a full stop before a number does not end one."""
    return re.split(r"(?<=[.!?])\s+(?!\d)", text.strip())


def _in_grid(summary: Summary, pair: Comparison) -> bool:
    """Return whether a row is compared with zeros, so that its own cell is the difference."""
    column, _, other = pair
    return not any(summary.at_seeds(other, column))


def _differences(shown: Sequence[Comparison], summary: Summary) -> list[str]:
    """Return the table of differences: a row for each pair, a column for each measure that compares any."""
    columns = list(dict.fromkeys(column for column, _, _ in shown))
    pairs = list(dict.fromkeys((row, other) for _, row, other in shown))
    lines = [
        "| paired difference | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for row, other in pairs:
        cells = [
            show(summary.difference(column, row, other), sign=True) + _verdict_of(summary, (column, row, other))
            if (column, row, other) in shown
            else ""
            for column in columns
        ]
        lines.append(f"| {row} − {beside(row, other)} | {' | '.join(cells)} |")
    return lines


def _verdict_of(summary: Summary, pair: Comparison) -> str:
    """Return the word of a comparison, with a space before it; one that is not significant has none."""
    verdict = summary.verdict(*pair)
    return "" if verdict == NOT_DIFFERENT else f" {verdict}"


def _grid(table: Table, summary: Summary) -> list[str]:
    printed = {column for cells in table.published.values() for column in cells}
    header = [""]
    columns = [column for column in summary.columns if column not in table.aside]
    for column in columns:
        header += [f"{column} ↓" if column in table.fewer_is_better else column]
        header += ["published"] if column in printed else []
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    rows = [*summary.rows, *(row for row in table.published if row not in summary.rows)]
    for row in (row for row in rows if row not in table.aside):
        cells = [row]
        for column in columns:
            zeros = [pair for pair in table.compare if pair[:2] == (column, row) and _in_grid(summary, pair)]
            verdicts = "".join(_verdict_of(summary, pair) for pair in zeros)
            cells.append(show(summary.cell(row, column)) + verdicts if summary.has(row, column) else "")
            if column in printed:
                value = table.published.get(row, {}).get(column)
                cells.append("" if value is None else f"{value:g}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def write(
    folder: Path,
    name: str,
    table: Table,
    summary: Summary,
    took: Took,
    quick: bool,
    figures: Mapping[str, str] | None = None,
) -> str:
    """Write ``<name>.md``, ``<name>.json`` and a ``<name>_<figure>.svg`` each into ``folder``; returns the Markdown."""
    drawn = {f"{name}_{key}.svg": svg for key, svg in (figures or {}).items()}
    text = markdown(table, summary, took, quick, list(drawn))
    record: dict[str, Any] = {
        "title": table.title,
        "source": table.source,
        "data": table.data,
        "quick": quick,
        "seeds": summary.seeds,
        "seconds": round(took.seconds, 1),
        "processor": None if took.processor is None else round(took.processor, 1),
        "measured": took.measured,
        "rows": {
            row: {c: _plain(summary.cell(row, c)) for c in summary.columns if summary.has(row, c)}
            for row in summary.rows
        },
        "by_seed": list(summary.values),
        "published": table.published,
        "differences": [_difference(pair, summary) for pair in table.compare],
        "primary": _difference(table.primary.comparison, summary),
        "reading": _reading(table, summary),
        **({"figures": list(drawn)} if drawn else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, svg in drawn.items():
        write_whole(folder / file, svg)
    for suffix, content in ((".md", text), (".json", json.dumps(record, indent=1) + "\n")):
        write_whole(folder / f"{name}{suffix}", content)
    return text


def rewrite(folder: Path, name: str) -> bool:
    """Write a page again from the figures beside it, with today's words; return whether there were any.

    Raises:
        InvalidInput: the table now names rows or columns that were not measured; measure it again.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        return False
    record: dict[str, Any] = json.loads(path.read_text())
    table: Table = import_module(TABLES[name]).TABLE
    took = Took(record["seconds"], record.get("processor"), record.get("measured", ""))
    prefix = f"{name}_"
    drawn = {Path(file).stem.removeprefix(prefix): (folder / file).read_text() for file in record.get("figures", [])}
    write(folder, name, table, table.summary(record["by_seed"]), took, record["quick"], drawn)
    return True


def _difference(pair: tuple[str, str, str], summary: Summary) -> dict[str, Any]:
    column, row, other = pair
    return {
        "column": column,
        "row": row,
        "other": other,
        **_plain(summary.difference(*pair)),
        "p": _number(summary.p_value(*pair)),
        "verdict": summary.verdict(*pair),
        "sentence": f"{summary.finding(*pair)} on {pair[0]}",
    }


def _plain(found: Estimate) -> dict[str, float | None]:
    return {"mean": _number(found.value), "low": _number(found.low), "high": _number(found.high)}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
