"""Read the file of a public trial: find it or tell its source, check it, and make a training frame."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.data.trials.layout import LAYOUTS, Layout
from shadowprice.errors import InvalidInput, InvalidTable, NotFound, TableProblem


@dataclass(frozen=True, eq=False)
class TrialTable:
    """A trial as the two-outcome models read it.

    frame   account_id, level, response, propensity, exploration, x_*, c_* [, cost]; the propensity of a drawn
            level is its share, that of a level that a policy chose is unknown (NaN)
    levels  0, 1, …: the arms in order. They name arms; no file has the price of an arm.
    notes   source, arms, outcomes, rows
    """

    frame: pd.DataFrame
    levels: tuple[int, ...]
    notes: dict[str, str]


def names() -> list[str]:
    """Every trial that :func:`load` reads."""
    return sorted(LAYOUTS)


def load(name: str, data: str | Path, *, rows: int | None = None) -> TrialTable:
    """Read a public trial that you have downloaded; nothing is downloaded here.

    Args:
        name: one of :func:`names`.
        data: its file, CSV or gzipped CSV, or a folder that holds the file under its own name. Lazada's folder
            may hold both files: the biased one's rows are then marked as not drawn at random.
        rows: read only so many of each file.

    Raises:
        NotFound: no such trial, or no such file.
        InvalidTable: a column is missing or holds what it cannot; with its rows.
    """
    if name not in LAYOUTS:
        raise NotFound(f"no trial is named {name!r}; there are {', '.join(names())}")
    if rows is not None and rows < 1:
        raise InvalidInput("must be at least 1", field="rows")
    layout = LAYOUTS[name]
    parts = [_frame(path, layout, drawn, rows) for path, drawn in _files(name, layout, Path(data))]
    frame = pd.concat(parts, ignore_index=True)
    frame.insert(0, "account_id", [f"{name}-{row}" for row in range(len(frame))])
    return TrialTable(
        frame,
        tuple(range(len(layout.arms))),
        {
            "source": f"real, randomized: {layout.source}",
            "arms": ", ".join(f"{level} = {arm}" for level, arm in enumerate(layout.arms)),
            "value": layout.value,
            "cost": layout.cost_note,
            "rows": f"{len(frame)}, {int(frame['exploration'].sum())} of them drawn at random",
        },
    )


def _files(name: str, layout: Layout, data: Path) -> list[tuple[Path, bool]]:
    if data.is_file():
        return [(data, layout.files.get(data.name, True))]
    found = [(data / file, drawn) for file, drawn in layout.files.items() if (data / file).is_file()]
    if not found:
        wanted = " or ".join(layout.files)
        raise NotFound(
            f"no file of the trial {name!r} at {data}: get {wanted} from its publisher and give its path or folder. "
            f"It is {layout.source}"
        )
    # A compressed file beside its own extract is the same rows twice.
    stems = {path.name.removesuffix(".gz") for path, _ in found}
    return found if len(stems) == len(found) else found[:1]


def _frame(path: Path, layout: Layout, drawn: bool, rows: int | None) -> pd.DataFrame:
    outcomes = [layout.value] + ([layout.cost] if layout.cost else [])
    wanted = [layout.treatment, *outcomes, *layout.numbers, *layout.categories]
    try:
        header = pd.read_csv(path, nrows=0).columns
    except (OSError, ValueError, EOFError) as error:
        raise InvalidTable(f"not a CSV file: {error}", field=path.name) from None
    missing = [column for column in wanted if column not in header]
    if missing:
        _refuse(path, missing[0], f"is missing; the file has {', '.join(map(str, header[:8]))}, …")
    text = dict.fromkeys((layout.treatment, *layout.categories), str)
    try:
        table = pd.read_csv(
            path, usecols=wanted, dtype={**dict.fromkeys([*layout.numbers, *outcomes], np.float32), **text}, nrows=rows
        )
    except (ValueError, EOFError):
        table = _find_fault(path, layout, [*outcomes, *layout.numbers], rows)
    if table.empty:
        raise InvalidTable("has no row", field=path.name)
    level = pd.Index(layout.arms).get_indexer(pd.Index(table[layout.treatment].str.strip()))
    _check(path, layout.treatment, level < 0, f"must be one of {', '.join(layout.arms)}")
    for column in outcomes:
        values = table[column].to_numpy()
        _check(path, column, ~np.isfinite(values), "must be known")
        if column in layout.binary:
            _check(path, column, ~np.isin(values, (0.0, 1.0)), "must be 0 or 1")
    share = np.bincount(level, minlength=len(layout.arms)) / level.size
    columns: dict[str, object] = {
        "level": level.astype(np.int64),
        "response": table[layout.value].astype(np.float64),
        "propensity": share[level] if drawn else np.nan,
        "exploration": drawn,
    }
    if layout.cost:
        columns["cost"] = table[layout.cost].astype(np.float64)
    features = {f"x_{name}": table[name] for name in layout.numbers}
    features |= {f"c_{name}": table[name] for name in layout.categories}
    return pd.DataFrame({**columns, **features}, index=table.index)


def _find_fault(path: Path, layout: Layout, numeric: list[str], rows: int | None) -> pd.DataFrame:
    """Name the column and the rows that are not numbers."""
    table = pd.read_csv(path, dtype=str, nrows=rows)
    for column in numeric:
        values = pd.to_numeric(table[column], errors="coerce")
        _check(path, column, (values.isna() & table[column].notna()).to_numpy(), "must be numbers")
    raise InvalidTable(f"cannot be read as the layout of {layout.source}", field=path.name)


def _check(path: Path, column: str, bad: NDArray[np.bool_], reason: str) -> None:
    if bad.any():
        _refuse(path, column, reason, np.flatnonzero(bad))


def _refuse(path: Path, column: str, reason: str, rows: NDArray[np.intp] | None = None) -> None:
    found = () if rows is None else tuple(rows[:5].tolist())
    problem = TableProblem(path.name, column, reason, found, 0 if rows is None else int(rows.size))
    raise InvalidTable(str(problem), problems=[problem])
