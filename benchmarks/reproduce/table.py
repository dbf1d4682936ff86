"""What a table is: an experiment at a seed, what the paper printed, and how the outcome reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reproduce.summary import Summary

Rows = Mapping[str, Mapping[str, float]]
"""Row (a method, a level, …) → column (a metric) → value at one seed."""

ROOT = Path(__file__).resolve().parents[2]
DATA_VARIABLE = "SHADOWPRICE_DATA"


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table or figure, as rows × columns, measured at several seeds.

    title      of the page
    source     which table or figure of which paper it answers
    data       what it is measured on; says so where outcomes are simulated
    run        the experiment: (seed, quick) → :data:`Rows`; the same rows and columns at every seed. ``quick``
               asks for a size that takes seconds. It must show no progress bar of its own.
    reading    the outcome in a sentence or two: computed from the summary, so that it cannot outlive the figures
    published  the paper's figures in the same rows and columns, those that it prints
    compare    (column, row, other row): differences to show, paired by seed
    fewer_is_better  columns in which less is better; the comparisons read by it
    seeds      how many in full mode
    figures    drawings of the first seed, made after ``run`` in the same process: (seed, quick) → name → SVG; they are
               kept with the seed's figures, written beside the page and shown on it
    missing    why it cannot be measured here (data that a user must supply), or None
    """

    title: str
    source: str
    data: str
    run: Callable[[int, bool], Rows]
    reading: Callable[[Summary], str]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    compare: Sequence[tuple[str, str, str]] = ()
    fewer_is_better: Sequence[str] = ()
    seeds: int = 5
    figures: Callable[[int, bool], Mapping[str, str]] | None = None
    missing: Callable[[], str | None] = lambda: None


def data_folder() -> Path:
    """Where data that do not come with the project lie: ``SHADOWPRICE_DATA``, or ``shared/data`` beside it."""
    return Path(os.environ.get(DATA_VARIABLE, ROOT.parent / "shared" / "data"))


def needs_file(*parts: str) -> Callable[[], str | None]:
    """A ``missing`` that asks for one file in the data folder."""

    def missing() -> str | None:
        path = data_folder().joinpath(*parts)
        return None if path.is_file() else f"{path} is not there; set SHADOWPRICE_DATA to the folder of the data"

    return missing
