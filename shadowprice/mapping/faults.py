"""Faults of a user's own files in one message."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.errors import InvalidTable, TableProblem
from shadowprice.mapping.opened import ROW, Opened
from shadowprice.tables.coercion import coerce, split_refused
from shadowprice.tables.problems import SHOWN_CHARACTERS, SHOWN_PROBLEMS, SHOWN_ROWS
from shadowprice.tables.schema import TEXT, WHOLE

MAPPING = "the mapping"


def unusable(problems: Sequence[TableProblem], hints: Sequence[str] = ()) -> InvalidTable:
    """Return the error that lists faults by file, column, row and line, and then hints."""
    lines = [f"  {_place(problem)}: {problem.detail}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
    count = "1 fault" if len(problems) == 1 else f"{len(problems)} faults"
    head = f"the files cannot be used, {count} (rows are counted from 0, after the header):"
    return InvalidTable("\n".join([head, *lines, *(f"  {hint}" for hint in hints)]), problems=problems)


def _place(problem: TableProblem) -> str:
    if problem.table == MAPPING:
        return f"{MAPPING}, {problem.column}"
    return problem.table if problem.column is None else f"{problem.table}, column {problem.column!r}"


class Lines:
    """Lines of a file in their types; cells that do not fit are unknown, and problems with their line.

    Args:
        frame: columns as texts, and the row in the source.
        kinds: column → type; one that the frame lacks is unknown.
        labels: column → the user's own.
        opened: the source.
    """

    def __init__(
        self, frame: pd.DataFrame, kinds: Mapping[str, str], labels: Mapping[str, str], opened: Opened
    ) -> None:
        self.problems: list[TableProblem] = []
        self.known: dict[str, pd.Series[Any]] = {}
        self._written: dict[str, pd.Series[Any]] = {}
        self._rows, self._labels, self._opened = frame[ROW].to_numpy(), labels, opened
        for name, kind in kinds.items():
            if name not in frame:
                absent = pa.nulls(len(frame)).to_pylist()  # a lone None would become NaN
                self.known[name] = pd.Series(absent, index=frame.index, dtype=object if kind == TEXT else WHOLE)
                continue
            own, refused = split_refused(frame[name])
            self._written[name] = own
            for reason, cells in refused.items():
                self.refuse(name, frame.index.isin(cells.index), reason)
                own = own.mask(frame.index.isin(cells.index))
            self.known[name], misfits = coerce(own.str.strip(), kind)
            for wrong, reason in misfits:
                self.refuse(name, wrong, reason)

    def refuse(self, name: str, wrong: NDArray[np.bool_], reason: str) -> None:
        """Add a problem for the rows that are wrong."""
        first = np.flatnonzero(wrong)
        if not len(first):
            return
        cell = self._written[name].iloc[first[0]]
        shown = "" if pd.isna(cell) else f"; got {str(cell)[:SHOWN_CHARACTERS]!r}"
        at = [self._opened.at(int(self._rows[row])) for row in first[:SHOWN_ROWS]]
        lines = tuple(line for _, _, line in at if line is not None)
        own, detail = self._labels[name], f"{reason}{shown} [{name}]"
        places = tuple(place[1] for place in at)
        self.problems.append(TableProblem(self._opened.source.label, own, detail, places, len(first), lines))

    def raise_problems(self, time: str) -> None:
        """Raise :class:`InvalidTable` where there are problems, with a hint where ``time`` has some."""
        if self.problems:
            about_time = any(f"[{time}]" in problem.reason for problem in self.problems)
            hint = "Times without a zone need `timezone`, and times of another form a `format`."
            raise unusable(self.problems, [hint] if about_time else [])
