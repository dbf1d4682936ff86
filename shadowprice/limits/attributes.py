"""Columns of accounts that conditions read when a request is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import Conflict, InvalidInput
from shadowprice.files import write_whole
from shadowprice.groups import hashes
from shadowprice.limits.conditions import known

INFLUENCE = "influence"
"""Column with the value for an account's partners of a minor unit that the account is given."""


@dataclass(frozen=True, eq=False)
class Attributes:
    """Columns of N accounts of one side.

    names    uint64 (N,), a hash of each account's name, ascending
    columns  name → (N,): numbers (NaN: not known), or places in ``texts`` (−1: not known)
    texts    name → the different texts of a column ``c_*``
    influence  table of the accounts that have partners, with the column :data:`INFLUENCE`; None: none is counted

    Example:
        >>> Attributes.of(["a", "b"], {"c_region": ["north", None]}).read("c_region", ["b", "a", "stranger"])
        [None, 'north', None]
    """

    names: NDArray[np.uint64]
    columns: Mapping[str, NDArray[Any]]
    texts: Mapping[str, list[str]] = field(default_factory=dict)
    influence: Attributes | None = None

    @classmethod
    def of(cls, account_id: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> Attributes:
        """Build the table of N accounts. O(N log N)."""
        names = hashes(account_id)
        order = np.argsort(names, kind="stable")
        kept: dict[str, NDArray[Any]] = {}
        texts: dict[str, list[str]] = {}
        for name, values in columns.items():
            if name.startswith("c_"):
                texts_of = list(known(values))
                texts[name] = sorted({str(value) for value in texts_of if value is not None})
                place = {text: row for row, text in enumerate(texts[name])} | {None: -1}
                kept[name] = np.array([place[value] for value in texts_of], dtype=np.int32)[order]
            else:
                kept[name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)[order]
        return cls(names[order], kept, texts)

    def empty(self, name: str) -> bool:
        """Return whether there are accounts, and none of them has a value in a column. O(N).

        >>> Attributes.of(["a"], {"x_age": [None]}).empty("x_age")
        True
        """
        values = self.columns[name]
        return bool(values.size) and bool((values < 0 if name in self.texts else np.isnan(values)).all())

    def lacking(self, account_id: Sequence[str]) -> list[str]:
        """Return those of n accounts that are not in the table, each once. O(n log N).

        >>> Attributes.of(["a"], {}).lacking(["b", "a", "b"])
        ['b']
        """
        names = list(dict.fromkeys(account_id))
        _, has = self._places(names)
        return [name for name, there in zip(names, has.tolist(), strict=True) if not there]

    def read(self, name: str, account_id: Sequence[str]) -> list[Any]:
        """Values of a column for n accounts; None where one is not known. O(n log N)."""
        if not self.names.size:
            return [None] * len(account_id)
        place, there = self._places(account_id)
        numbers, has = self.columns[name][place].tolist(), there.tolist()
        if name in self.texts:
            texts = [*self.texts[name], None]  # the last one is at −1
            return [texts[value] if there else None for value, there in zip(numbers, has, strict=True)]
        return list(known(value if there else None for value, there in zip(numbers, has, strict=True)))

    @cached_property
    def means(self) -> dict[str, float]:
        """Column of numbers → mean of its known entries, NaN where none is."""
        numbers = {name: column[np.isfinite(column)] for name, column in self.columns.items() if name not in self.texts}
        return {name: float(known.mean()) if known.size else np.nan for name, known in numbers.items()}

    def _places(self, account_id: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Rows of n accounts, and which of them are in the table."""
        wanted = hashes(account_id)
        place = np.searchsorted(self.names, wanted)
        if not self.names.size:
            return place, np.zeros(place.size, dtype=np.bool_)
        place = np.minimum(place, self.names.size - 1)
        return place, np.asarray(self.names[place] == wanted)


def columns_file(side: str) -> str:
    """Name of the file with the columns of the accounts of a side, in a workspace."""
    return f"attributes-{side}.parquet"


def read_attributes(folder: Path, side: str, columns: Iterable[str]) -> Attributes:
    """Read columns of the accounts of a side.

    Raises:
        InvalidInput: there is no such file or column, or it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / columns_file(side)
    wanted = list(columns)
    try:
        has = pq.read_schema(path).names
        if missing := [name for name in wanted if name not in has]:
            raise InvalidInput(
                f"the accounts of side {side!r} have no column {missing[0]!r}; they have {sorted(has)[1:]}",
                field=str(path),
            )
        table = pq.read_table(path, columns=["account_id", *wanted])
    except (OSError, pa.ArrowInvalid) as error:
        fault = f"cannot be read: {error}; run `shadowprice job featurize` again"
        raise InvalidInput(fault, field=str(path)) from error
    return Attributes.of(table["account_id"].to_pylist(), {name: table[name].to_pylist() for name in wanted})


def read_influence(path: Path, side: str) -> Attributes:
    """Read what :func:`write_influence` wrote, of one side.

    Raises:
        InvalidInput: there is no such file, it is damaged, or a number is not finite.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["account_id", "side", INFLUENCE])
    except (OSError, pa.ArrowInvalid) as error:
        fault = f"cannot be read: {error}; copy the file of the job lift into the workspace, or name none"
        raise InvalidInput(fault, field=str(path)) from error
    own = table.filter(pc.equal(table["side"], side))
    values = own[INFLUENCE].to_numpy()
    InvalidInput.refuse_rows(~np.isfinite(values), "must be finite", field=INFLUENCE)
    return Attributes.of(own["account_id"].to_pylist(), {INFLUENCE: values.tolist()})


def write_influence(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write the influence of accounts: ``account_id``, ``side`` and :data:`INFLUENCE`.

    Raises:
        Conflict: the file exists. A campaign names it, so its content never changes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.exists():
        raise Conflict(f"{path} exists, and a campaign may decide by it; give another name")
    schema = pa.schema({"account_id": pa.string(), "side": pa.string(), INFLUENCE: pa.float64()})
    table, content = pa.table(dict(columns), schema=schema), pa.BufferOutputStream()
    pq.write_table(table, content)
    write_whole(path, content.getvalue().to_pybytes())
