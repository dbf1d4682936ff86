"""The front page of the results: what was measured, when, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shadowprice.files import write_whole

INDEX = "README.md"


def write_index(folder: Path, names: Iterable[str]) -> None:
    """Write ``README.md`` from the pages' JSON, those of ``names`` that are there, in that order."""
    pages = {name: json.loads(path.read_text()) for name in names if (path := folder / f"{name}.json").is_file()}
    quick = any(page["quick"] for page in pages.values())
    lines = [
        "# Results" + (" of quick mode: not to be quoted" if quick else ""),
        "",
        "What `make reproduce` measured. Each page says on what data, and what is simulated. Seconds are "
        "those of all its seeds, one after the other: on the wall of a machine that did other things too, and of the "
        "processor where they were taken.",
        "",
        "| page | measures | answers | seeds | seconds | of processor | measured on |",
        "|---|---|---|---|---|---|---|",
        *(_row(name, page) for name, page in pages.items()),
        "",
        f"{len(pages)} pages, {sum(page['seconds'] for page in pages.values()) / 60:.0f} minutes in all. "
        "`make reproduce QUICK=1` measures every table at small sizes, not to be quoted, and prints its seconds.",
        "",
    ]
    write_whole(folder / INDEX, "\n".join(lines))


def _row(name: str, page: dict[str, Any]) -> str:
    processor = page.get("processor")
    cells = [
        f"[{name}]({name}.md)",
        page["title"],
        page["source"],
        str(page["seeds"]),
        f"{page['seconds']:.0f}",
        "" if processor is None else f"{processor:.0f}",
        page.get("measured", ""),
    ]
    return "| " + " | ".join(cells) + " |"
