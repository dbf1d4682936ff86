"""A table of results: an experiment at a seed, the paper's figures, and a sentence about the outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from research.primary import Primary
from shadowprice.errors import InvalidInput

if TYPE_CHECKING:
    from research.summary import Summary

__all__ = ["Primary", "Rows", "Table", "data_folder", "needs_file"]

Rows = Mapping[str, Mapping[str, float]]
"""Row (a method, a level, …) → column (a metric) → value at one seed."""

QUICK_SEEDS = 2
ROOT = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "SHADOWPRICE_DATA"


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table or figure, as rows × columns, measured at several seeds.

    title      of the page
    source     which table or figure of which paper it answers
    data       data set of the measurement; states where outcomes are simulated
    run        the experiment: (seed, quick) → :data:`Rows`; the same rows and columns at every seed. ``quick``
               asks for a size that takes seconds. It must show no progress bar of its own.
    reading    the outcome in a sentence or two: computed from the summary, so that it cannot outlive the figures
    published  the paper's figures in the same rows and columns, those that it prints
    primary    the one comparison that the page is about, named before it is measured; it sets the number of seeds
    compare    all other comparisons to show, paired by seed; their p-values are adjusted together by Holm's method
    fewer_is_better  columns in which less is better; the comparisons read by it
    also       columns, rows and comparisons that the page shows beside those that its words, the index or the paper use
    seeds      number of seeds where the primary comparison does not set it: on fixed data, seeds are no replications
    first_seed first seed of full mode; settings are chosen on the seeds below it
    figures    drawings of the first seed, made after ``run`` in the same process: (seed, quick) → name → SVG; they are
               kept with the seed's figures, written beside the page and shown on it
    missing    why it cannot be measured here (data that a user must supply), or None
    """

    title: str
    source: str
    data: str
    run: Callable[[int, bool], Rows]
    reading: Callable[[Summary], str]
    primary: Primary
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    compare: Sequence[tuple[str, str, str]] = ()
    fewer_is_better: Sequence[str] = ()
    also: Sequence[str | tuple[str, str, str]] = ()
    seeds: int | None = None
    first_seed: int = 100
    figures: Callable[[int, bool], Mapping[str, str]] | None = None
    missing: Callable[[], str | None] = lambda: None

    def __post_init__(self) -> None:
        if self.primary.comparison in self.compare:
            raise InvalidInput("the primary comparison is not one of the others; leave it out", field="compare")

    def seed_numbers(self, quick: bool = False, seeds: int | None = None) -> range:
        """Return the seeds to measure: two from 0 in quick mode, else as many as are needed from ``first_seed``.

        Args:
            quick: small sizes, on the seeds that settings may be chosen on.
            seeds: a number of seeds instead of the table's own.
        """
        own = self.seeds or self.primary.seeds
        if quick:
            return range(seeds or min(QUICK_SEEDS, own))
        return range(self.first_seed, self.first_seed + (seeds or own))

    def summary(self, by_seed: Sequence[Rows]) -> Summary:
        """Sum up one :data:`Rows` per seed, with this table's comparisons."""
        # Each seed of a table is a process of its own, which sums up nothing and would load statsmodels.
        from research.summary import Summary

        return Summary(by_seed, self.fewer_is_better, self.primary.comparison, tuple(self.compare))


def data_folder() -> Path:
    """Return the folder of data kept outside the project: ``SHADOWPRICE_DATA``, or ``shared/data`` beside it."""
    return Path(os.environ.get(DATA_VARIABLE, ROOT.parent / "shared" / "data"))


def needs_file(*parts: str) -> Callable[[], str | None]:
    """Return a ``missing`` that asks for one file in the data folder."""

    def missing() -> str | None:
        path = data_folder().joinpath(*parts)
        return None if path.is_file() else f"{path} is not there; set SHADOWPRICE_DATA to the folder of the data"

    return missing
