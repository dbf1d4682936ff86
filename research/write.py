"""Write a measured table as a page of Markdown and as JSON."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from research.papers import EXHIBITS
from research.registry import TABLES
from research.summary import NOT_DIFFERENT, Comparison, Summary, beside, show
from research.table import Table
from research.took import Took
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.files import write_whole

MOST_SENTENCES = 3
"""Longest verdict and longest reading of a page."""


@dataclass(frozen=True)
class Shown:
    """Reading of a page, and the rows, columns and comparisons that its words, the index or the paper use."""

    reading: str
    rows: Sequence[str]
    columns: Sequence[str]
    comparisons: Sequence[Comparison]


def shown(name: str, table: Table, summary: Summary) -> Shown:
    """Return what the page of a table shows; the JSON has the rest. A row of zeros is in the differences from it.

    Raises:
        InvalidInput: the reading has more than :data:`MOST_SENTENCES` sentences.
    """
    asked = replace(summary)
    reading = table.reading(asked)
    if len(sentences(reading)) > MOST_SENTENCES:
        raise InvalidInput(f"must have at most {MOST_SENTENCES} sentences; the table has the figures", field="reading")
    claims = {pair for each in EXHIBITS if each.page == name for pair in (*each.needs, *each.worse)}
    compared = asked.cited.comparisons | claims | {table.primary.comparison}
    columns = {column for column, _, _ in compared} | {column for _, column in asked.cited.cells}
    rows = {row for _, *pair in compared for row in pair} | {row for row, _ in asked.cited.cells}
    return Shown(
        reading,
        [row for row in summary.rows if row in {*rows, *table.published, *table.also} and not _zeros(summary, row)]
        + [row for row in table.published if row not in summary.rows],
        [column for column in summary.columns if column in {*columns, *table.also}],
        [pair for pair in table.compare if pair in {*compared, *table.also}],
    )


def _zeros(summary: Summary, row: str) -> bool:
    """Return whether all that was measured of a row is 0: it stands for what the others are compared with."""
    return not any(any(summary.at_seeds(row, column)) for column in summary.columns if summary.has(row, column))


def markdown(name: str, table: Table, summary: Summary, quick: bool, figures: Sequence[str] = ()) -> str:
    """Return the page: verdict, our figures beside the published ones, paired differences, reading, and drawings."""
    page = shown(name, table, summary)
    lines = [
        f"# {table.title}",
        "",
        _verdict(table, summary),
        "",
        *(["**Quick mode: small sizes, few seeds; not to be quoted.**"] if quick else []),
        f"Answers: {table.source}.",
        f"Measured on: {table.data}.",
        "",
        *_grid(table, summary, page),
    ]
    apart = [pair for pair in page.comparisons if not _in_grid(summary, pair)]
    if apart and summary.seeds > 1:
        lines += ["", *_differences(apart, summary)]
    lines += ["", f"**Reading.** {page.reading}", ""]
    for file in figures:
        lines += [f"![{Path(file).stem.replace('_', ' ')}]({file})", ""]
    return "\n".join(lines)


def _verdict(table: Table, summary: Summary) -> str:
    """Return the paragraph that opens the page: the primary comparison, and what its seeds detect with its power."""
    primary = table.primary
    named = f"**Verdict.** {summary.sentence(*primary.comparison)}."
    if summary.seeds == 1:
        return f"{named} The data are fixed, so intervals are those in the table."
    if summary.seeds != (table.seeds or primary.seeds):
        return f"{named} {summary.seeds} seeds."
    return f"{named} {summary.seeds} seeds detect {primary.effect:g}."


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
    lines = ["| paired difference | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
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


def _grid(table: Table, summary: Summary, page: Shown) -> list[str]:
    """Return the table of figures, with the verdict in the cell of a row that is compared with zeros."""
    printed = {column for cells in table.published.values() for column in cells}
    header = [""]
    for column in page.columns:
        header += [f"{column} ↓" if column in table.fewer_is_better else column]
        header += ["published"] if column in printed else []
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in page.rows:
        cells = [row]
        for column in page.columns:
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
    text = markdown(name, table, summary, quick, list(drawn))
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
        "reading": table.reading(summary),
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
