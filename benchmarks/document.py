"""The figures of the documentation: every table between its markers is written from the results."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import scale
from benchmarks.markdown import Column, Results, goals_missed, grid, markdown
from benchmarks.service import tables

DOCS = Path(__file__).parents[1] / "docs"
PAGES = tuple(DOCS / "reference" / f"{page}.md" for page in ("benchmarks", "capacity", "service-performance"))
IMAGES = DOCS / "images"
LEAST_SHOWN = 100_000
"""Smallest number of accounts in the tables of solvers; the figure has the smaller ones."""


def write(results: Path, pages: Sequence[Path] = PAGES, images: Path = IMAGES) -> None:
    """Replace the tables and plots whose results are there; the others stay as they are."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    for page in pages:
        page.write_text(filled(page.read_text(), found))
        print(f"-> {page}")
    if (results / "allocation.svg").is_file():
        shutil.copyfile(results / "allocation.svg", images / "benchmark-allocation.svg")
    if "scale" in found:
        scale.plot(found, images / "benchmark-scale.svg")


def filled(text: str, results: Results) -> str:
    """The text with the tables between ``<!-- name -->`` and ``<!-- end -->`` made anew."""

    def table(match: re.Match[str]) -> str:
        name = match[1]
        source, make = TABLES[name]
        if source not in results or "cells" not in results[source] or "machine" not in results[source]:
            return match[0]
        return f"<!-- {name} -->\n{make(results).strip()}\n<!-- end -->"

    return re.sub(r"<!-- ([a-z]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def time(number: float) -> str:
    """Seconds in a unit that fits, three digits."""
    scale, unit = (1.0, "s") if number >= 1 else (1e3, "ms")
    return f"{number * scale:.3g} {unit}"


def seconds(name: str, key: str) -> Column:
    return name, lambda row: time(row[key])


def power(number: float | None) -> str:
    """A small number, one digit; zero as such."""
    return "" if number is None else "0" if number == 0 else f"{number:.0e}"


def small(name: str) -> Column:
    return name, lambda row: power(row.get(name))


def machine(results: Results) -> str:
    """One row for each machine that benchmarks were run on, with the highest load beside them."""
    found: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for name, of in results.items():
        load = max(cell["load"] for cell in of["cells"].values())
        found.setdefault((of["machine"]["processor"], of["machine"]["cores"]), []).append((name, load))
    lines = [
        [", ".join(name for name, _ in ran), *where, f"{max(load for _, load in ran):.1f}"]
        for where, ran in found.items()
    ]
    return markdown(("benchmarks", "processor", "cores", "highest load average"), lines)


def budgets(kind: str) -> Callable[[Results], str]:
    """Table of engine and peers for one kind of instance, from ``LEAST_SHOWN`` accounts on, of the solvers that ran."""

    def shown(row: dict[str, Any]) -> bool:
        return row["kind"] == kind and row["accounts"] >= LEAST_SHOWN and "skipped" not in row

    return lambda results: grid(
        filter(shown, results["allocation"]["rows"]),
        ("accounts", "{accounts:,}"),
        ("solver", lambda row: f"**{row['solver']}**" if row["solver"].startswith("engine") else row["solver"]),
        seconds("seconds", "seconds"),
        ("reads", lambda row: f"{row['reads']:,.3g}" if row["reads"] < 1000 else f"{row['reads']:,.0f}"),
        ("× engine", lambda row: f"{row['ratio']:,.0f}" if row["ratio"] >= 10 else f"{row['ratio']:.2g}"),
        *map(small, ("gap", "difference", "violation")),
        ("extra MB", "{peak:.0f}"),
    )


def sizes(results: Results) -> str:
    return grid(
        [row for row in results["demands"]["exact_sizes"] if row["accounts"] >= LEAST_SHOWN],
        ("instance", "{kind}"),
        ("accounts, segments", "{accounts:,}, {segments}"),
        seconds("engine, CPU", "seconds"),
        ("reads", "{reads:.0f}"),
        small("gap"),
        ("memory ÷ input", "{memory:.2f}"),
        ("min-cost flow", "{flow[ratio]:.0f} ×"),
        ("its difference", lambda row: power(row["flow"]["difference"])),
        ("heuristic: time, of the optimum", "{heuristic[ratio]:.0f} ×, {heuristic[of_optimum]:.4f}"),
        ("priority", "{priority[of_optimum]:.3f}"),
    )


def delivery(results: Results) -> str:
    return grid(
        results["delivery"]["delivery"],
        ("users, funds", "{users:,} × {funds}"),
        seconds("clock", "seconds"),
        seconds("CPU", "processor"),
        ("predict, CPU", lambda row: time(row["parts"]["predict"])),
        small("gap"),
        ("ineligible", "{ineligible}"),
        ("peak MB", "{peak_mb:,.0f}"),
    )


def dual(results: Results) -> str:
    return grid(
        [
            row | {"of_one": row["warm_seconds"] / row["seconds"], "of_cpu": row["warm_cpu"] / row["cpu"]}
            for row in results["dual"]["dual"]
        ],
        ("requests", "{accounts:,}"),
        seconds("one process", "seconds"),
        seconds("CPU", "cpu"),
        seconds("from the disk", "from_disk_seconds"),
        ("actors", "{workers}"),
        seconds("a solve", "warm_seconds"),
        seconds("CPU", "warm_cpu"),
        ("ratio (of CPU)", "{of_one:.2f} ({of_cpu:.2f})"),
        ("cold: Ray + first solve", lambda row: f"{time(row['ray_start_seconds'])} + {time(row['first_seconds'])}"),
        ("price differs by", lambda row: power(row["price_difference"])),
    )


def goals(results: Results) -> str:
    """Goals that are missed or not measured, and the number of the others."""
    rows = [row for row in results["allocation"]["rows"] if "skipped" not in row]

    def of(key: str, kind: str, accounts: int, solver: str = "engine") -> float | None:
        place = (kind, accounts, solver)
        return next((row[key] for row in rows if (row["kind"], row["accounts"], row["solver"]) == place), None)

    lines: list[tuple[str, str, bool | None]] = []

    def goal(text: str, measured: float | None, limit: float, *, least: bool = False, unit: str = "") -> None:
        if measured is None:
            lines.append((text, "not measured", None))
            return
        met = measured >= limit if least else measured <= limit
        shown = power(measured) if limit < 1e-3 else f"{measured:,.0f}" if measured >= 100 else f"{measured:.3g}"
        lines.append((text, shown + unit, met))

    mine = [row for row in rows if row["solver"].startswith("engine")]
    goal("certified gap ≤ 1e-9, all sizes", max(row["gap"] for row in mine), 1e-9)
    goal("violation ≤ 0, all sizes (rounding in the last bits aside)", max(row["violation"] for row in mine), 1e-12)
    for accounts, times in ((10_000, 1_000), (100_000, 5_000)):
        text = f"one budget, {accounts:,}: ≥ {times:,} × HiGHS's interior point"
        goal(text, of("ratio", "one", accounts, "HiGHS ipm"), times, least=True, unit=" ×")
    for accounts, reads in ((1_000_000, 3.0), (10_000_000, 2.0), (100_000_000, 1.6)):
        goal(f"one budget, {accounts:,}: ≤ {reads:g} reads", of("reads", "one", accounts), reads)
    large = [row for row in mine if row["accounts"] >= 10_000_000]
    for row in large[-1:]:
        goal("memory ≤ 1.2 × the input, largest size", 1 + row["peak"] / row["megabytes"], 1.2, unit=" ×")
    goal("K = 8, 1,000,000: ≤ 8 reads", of("reads", "eight", 1_000_000), 8.0)
    goal("K = 8, 1,000,000: gap of whole levels ≤ 3e-6", of("rounded_gap", "eight", 1_000_000), 3e-6)
    for row in results.get("demands", {}).get("exact_sizes", []):
        if (row["accounts"], row["segments"]) == (200_000, 8):
            what = f"exact sizes, 200,000 × 8, {row['kind']}"
            goal(f"{what}: ≥ 100 × min-cost flow", row["flow"]["ratio"], 100, least=True, unit=" ×")
            goal(f"{what}: ≥ 20 × the heuristic", row["heuristic"]["ratio"], 20, least=True, unit=" ×")
            goal(f"{what}: memory ≤ 1.2 × the input", row["memory"], 1.2, unit=" ×")
    return goals_missed(lines)


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "machine": ("allocation", machine),
    "one": ("allocation", budgets("one")),
    "eight": ("allocation", budgets("eight")),
    "goals": ("allocation", goals),
    "sizes": ("demands", sizes),
    "delivery": ("delivery", delivery),
    "dual": ("dual", dual),
    "scale": ("scale", scale.table),
    **tables.TABLES,
}
"""Marker → which results it needs, and the table."""
