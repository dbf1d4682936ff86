"""Rows of two arms in cells of arm and period: requests alone, or requests with a row for each assigned account."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import Clusters, partitions
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.experiments.columns import NUMBER, PERIOD, Columns
from shadowprice.experiments.covariates import with_missing
from shadowprice.experiments.effects import Cells


@dataclass(frozen=True, eq=False)
class Stacked:
    """N rows of two arms.

    cells        with cell 2s for the baseline and 2s + 1 for the arm in period s; arm 1 is the arm
    signs        (C,), coefficients of the lift
    unit         (N,), code of the unit of each row
    value, cost  (N,)
    covariates   (p, N)
    asked        bool (N,), the rows that are requests
    """

    cells: Cells
    signs: Array
    unit: NDArray[np.intp]
    value: Array
    cost: Array
    covariates: Array
    asked: NDArray[np.bool_]

    def counts(self, treated: bool) -> tuple[int, int]:
        """Units that asked, and requests, of one arm."""
        rows = self.asked & (self.cells.arm[self.cells.cell] == int(treated))
        return int(np.unique(self.unit[rows]).size), int(rows.sum())


def per_assigned(
    requests: pd.DataFrame, assigned: pd.DataFrame, arm: str, baseline: str, columns: Columns, level: float
) -> Stacked:
    """Stack the requests of two arms on the accounts that are assigned to them, in the periods that have both.

    Args:
        requests, assigned: as of :func:`~shadowprice.experiments.lift`.
        arm, baseline: names of the two arms.
        columns: names of the columns.
        level: of the intervals.

    A request of an account that is not among the assigned ones counts in the sum of its arm: the size of the arm then
    stands for the number of such accounts.
    """
    listed = columns.unit in assigned
    members = assigned[assigned[columns.arm].isin([arm, baseline])]
    number = np.ones(len(members)) if listed else members[NUMBER].to_numpy(dtype=np.float64)
    of, treated = _period(members), (members[columns.arm] == arm).to_numpy()
    shared = np.array(sorted(set(of[treated & (number > 0)]) & set(of[~treated & (number > 0)])), dtype=np.int64)
    requests = requests[np.isin(_period(requests), shared)]
    require(len(requests), "assigned", f"has no time in which both {arm!r} and {baseline!r} have accounts")
    cell = _cell(requests, arm, shared, columns)
    inside = np.isin(of, shared)
    members, placed = members[inside], _cell(members[inside], arm, shared, columns)
    size: Array = np.bincount(placed, number[inside], minlength=2 * shared.size).astype(np.float64)
    if not listed:
        members = requests[[columns.unit]].assign(cell=cell).drop_duplicates()
        placed = members["cell"].to_numpy()
    code, units = _codes(pd.concat([requests[columns.unit], members[columns.unit]]), columns.unit)
    at = code * size.size + np.concatenate([cell, placed])
    n = len(requests)
    rows = np.bincount(at[n:], minlength=units * size.size)
    visits = np.bincount(at[:n], minlength=rows.size)
    known = rows[at[:n]] > 0
    require(known.any(), "assigned", "has none of the accounts that asked; give the accounts of the campaign")
    partner = None
    if columns.partner:
        met, partners = _codes(requests[columns.partner], columns.partner)
        partner = np.concatenate([met, partners + code[n:]])
    past = with_missing([members[name].to_numpy() for name in columns.covariates]) if listed else np.zeros((0, 0))
    none = np.zeros(code.size - n)
    value, cost = (
        np.concatenate([as_rows({name: requests[name].to_numpy()})[name], none])
        for name in (columns.value, columns.cost)
    )
    cells = Cells(
        cell=np.concatenate([cell, placed]),
        ways=_ways(code, partner),
        arm=np.tile(np.arange(2), shared.size),
        weight=np.concatenate([np.zeros(n), np.full(none.size, float(listed))]),
        visits=np.concatenate([known.astype(np.float64), -visits[at[n:]] / rows[at[n:]]]),
        size=size,
        level=level,
    )
    covariates = np.concatenate([np.zeros((len(past), n)), past], axis=1) if len(past) else np.zeros((0, 0))
    signs = np.tile([-1.0, 1.0], shared.size)
    return Stacked(cells, signs, code, value, cost, covariates, np.arange(code.size) < n)


def per_request(requests: pd.DataFrame, every: pd.DataFrame, arm: str, columns: Columns, level: float) -> Stacked:
    """Return the requests of two arms in the periods that have both; each counts by its part of ``every`` request."""
    of, treated = _period(requests), (requests[columns.arm] == arm).to_numpy()
    shared = np.array(sorted(set(of[treated]) & set(of[~treated])), dtype=np.int64)
    requests = requests[np.isin(of, shared)]
    require(len(requests), "frame", "has no period with requests of both arms")
    cell = _cell(requests, arm, shared, columns)
    code, _ = _codes(requests[columns.unit], columns.unit)
    partner = _codes(requests[columns.partner], columns.partner)[0] if columns.partner else None
    size = np.bincount(cell, minlength=2 * shared.size).astype(np.float64)
    traffic = _period(every)
    part = np.array([np.count_nonzero(traffic == period) for period in shared], dtype=np.float64)
    ways, one = _ways(code, partner), np.ones(code.size)
    cells = Cells(cell, ways, np.tile(np.arange(2), shared.size), one, np.zeros(code.size), size, level)
    value, cost = (as_rows({name: requests[name].to_numpy()})[name] for name in (columns.value, columns.cost))
    past = with_missing([requests[name].to_numpy() for name in columns.covariates])
    signs = np.repeat(part / part.sum(), 2) * np.tile([-1.0, 1.0], shared.size)
    return Stacked(cells, signs, code, value, cost, past, one > 0)


def _ways(unit: NDArray[np.intp], partner: NDArray[np.intp] | None) -> tuple[Clusters, ...]:
    if partner is None:
        return (Clusters(unit, int(unit.max()) + 1),)
    return partitions(unit.size, unit, partner, fields=("unit", "partner"))


def _period(table: pd.DataFrame) -> NDArray[np.int64]:
    return table[PERIOD].to_numpy(dtype=np.int64) if PERIOD in table else np.zeros(len(table), dtype=np.int64)


def _cell(table: pd.DataFrame, arm: str, periods: NDArray[np.int64], columns: Columns) -> NDArray[np.intp]:
    return 2 * np.searchsorted(periods, _period(table)) + (table[columns.arm] == arm).to_numpy().astype(np.intp)


def _codes(ids: pd.Series, field: str) -> tuple[NDArray[np.intp], int]:
    """Codes of identifiers in order of appearance, and their number. O(N), where sorting text is slow."""
    code, names = pd.factorize(ids)
    InvalidInput.refuse_rows(code < 0, "is missing", field=field)
    return code.astype(np.intp, copy=False), len(names)
