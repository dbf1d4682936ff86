"""A measured table as a page of Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reproduce.summary import Summary, show
from benchmarks.reproduce.table import Table
from benchmarks.reproduce.took import Took
from shadowprice.files import write_whole


def markdown(table: Table, summary: Summary, took: Took, quick: bool, figures: Sequence[str] = ()) -> str:
    """The page: ours beside the published figures, the paired differences, how it reads, and files of figures."""
    on = f", on {took.measured}" if took.measured else ""
    size = "**Quick mode: small sizes, few seeds; not to be quoted.** " if quick else ""
    lines = [
        f"# {table.title}",
        "",
        f"Answers: {table.source}.",
        f"Measured on: {table.data}.",
        f"{size}{summary.seeds} seed{'s' * (summary.seeds != 1)}, {took} in all{on}; "
        "mean and 95 % t interval over seeds.",
        "",
        *_grid(table, summary),
    ]
    if table.compare:
        lines += ["", "| difference, paired by seed | on | mean [95 %] | |", "|---|---|---|---|"]
        for column, row, other in table.compare:
            found = show(summary.difference(column, row, other), sign=True)
            lines.append(f"| {row} − {other} | {column} | {found} | {summary.verdict(column, row, other)} |")
    lines += ["", f"**Reading.** {table.reading(summary)}", ""]
    for file in figures:
        lines += [f"![{Path(file).stem.replace('_', ' ')}]({file})", ""]
    return "\n".join(lines)


def _grid(table: Table, summary: Summary) -> list[str]:
    printed = {column for cells in table.published.values() for column in cells}
    header = [""]
    for column in summary.columns:
        header += [f"{column} ↓" if column in table.fewer_is_better else column]
        header += ["published"] if column in printed else []
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header))]
    for row in [*summary.rows, *(row for row in table.published if row not in summary.rows)]:
        cells = [row]
        for column in summary.columns:
            cells.append(show(summary.cell(row, column)) if summary.has(row, column) else "")
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
        "differences": [
            {"column": c, "row": a, "other": b, **_plain(summary.difference(c, a, b))} for c, a, b in table.compare
        ],
        "reading": table.reading(summary),
        **({"figures": list(drawn)} if drawn else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, svg in drawn.items():
        write_whole(folder / file, svg)
    for suffix, content in ((".md", text), (".json", json.dumps(record, indent=1) + "\n")):
        write_whole(folder / f"{name}{suffix}", content)
    return text


def _plain(found: Any) -> dict[str, float | None]:
    def number(value: float) -> float | None:
        return value if value == value else None

    return {"mean": number(found.value), "low": number(found.low), "high": number(found.high)}
