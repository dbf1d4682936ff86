"""Accounts known by their embeddings; curves are computed a tile at a time and never kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.mapped import advise, open_npy
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.source import TILE, Arrays, Resources, parts
from shadowprice.errors import InvalidInput, InvalidProblem

Curve = Callable[[NDArray[Any]], NDArray[Any] | Arrays]
"""Function from embeddings (n, D) to the value matrix (J, n), or to named matrices of which ``value`` is one.

An account's column must not depend on which others are computed with it; response heads are written so.
"""

STEP = 1 << 14
"""Accounts computed at a time: their float64 intermediate results should stay in the cache."""


@dataclass(frozen=True, eq=False)
class CurveSource:
    """Accounts [start, stop) of embeddings (N, D), an array or the path of a ``.npy`` file.

    columns  further arrays of those accounts, on the last axis
    """

    embedding: NDArray[Any] | Path
    curve: Curve
    start: int
    stop: int
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the file itself, or is sent its own rows.
        state = {key: self.__dict__[key] for key in ("embedding", "curve", "start", "stop", "columns")}
        if not isinstance(self.embedding, Path):
            state |= {"embedding": self._rows, "start": 0, "stop": self.accounts}
        return state

    @property
    def name(self) -> str:
        """Name of the accounts for messages: their source and range."""
        return f"{self.embedding if isinstance(self.embedding, Path) else 'embedding'} {self.start}–{self.stop}"

    @property
    def levels(self) -> int:
        """Number of levels J."""
        return int(self._first["value"].shape[0])

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return self.stop - self.start

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays."""
        return frozenset(self._first)

    @cached_property
    def _rows(self) -> NDArray[Any]:
        array = open_npy(self.embedding) if isinstance(self.embedding, Path) else self.embedding
        return array[self.start : self.stop]

    @cached_property
    def _first(self) -> Arrays:
        return self._compute(self._rows[:1]) | {name: column[..., :1] for name, column in self.columns.items()}

    @property
    def grain(self) -> int:
        """Every account costs the same."""
        return WIDTH

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """Computed ``STEP`` accounts at a time; curves only where a name needs them."""
        rows = self._rows
        flat, depth = rows.reshape(-1), rows.shape[1]
        computed = not set(names) <= set(self.columns)
        for start in range(0, self.accounts, STEP):
            stop, after = min(self.accounts, start + STEP), min(self.accounts, start + 2 * STEP)
            if after > stop:
                advise(flat, stop * depth, after * depth, "WILLNEED")
            arrays = self._compute(rows[start:stop]) if computed else {}
            advise(flat, start * depth, stop * depth, "DONTNEED")
            yield start, self._chosen(arrays, names, np.s_[..., start:stop])

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Computed for the accounts of the blocks only."""
        place = (starts[:, None] + np.arange(width)).ravel()
        rows = self._gathered(place)
        parts = [self._compute(rows[at : at + STEP]) for at in range(0, place.size, STEP)]
        arrays = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        return self._chosen(arrays, names, (..., place))

    def held(self) -> CurveSource:
        """Return the source with its embeddings in memory; curves are still computed at each pass."""
        return replace(self, embedding=np.array(self._rows), start=0, stop=self.accounts)

    def _gathered(self, place: NDArray[np.int64]) -> NDArray[Any]:
        """The embeddings at ascending places; a part of the file is given back before the next is touched."""
        rows = self._rows
        depth = rows.shape[1]
        found = np.empty((place.size, depth), dtype=rows.dtype)
        step = max(1, TILE // (depth * rows.itemsize))
        for start in range(0, self.accounts, step):
            one, other = np.searchsorted(place, [start, start + step])
            if other > one:
                found[one:other] = rows[place[one:other]]
                advise(rows.reshape(-1), start * depth, min(start + step, self.accounts) * depth, "DONTNEED")
        return found

    def _compute(self, embedding: NDArray[Any]) -> dict[str, NDArray[Any]]:
        made = self.curve(embedding)
        arrays = {"value": np.asarray(made)} if not isinstance(made, Mapping) else dict(made)
        if "value" not in arrays:
            raise InvalidProblem(f"must give 'value', gave {sorted(arrays)}", field="curve")
        for name, array in arrays.items():
            if array.ndim != 2 or array.shape[1] != embedding.shape[0]:
                raise InvalidProblem(
                    f"must give {name!r} of shape (levels, {embedding.shape[0]}), gave {array.shape}", field="curve"
                )
        return arrays

    def _chosen(self, arrays: Arrays, names: Collection[str], index: Any) -> Arrays:
        return {name: arrays[name] if name in arrays else self.columns[name][index] for name in names}


class CurveProblem:
    """An allocation problem whose curves are computed on the fly; the whole (J, N) never exists.

    Args:
        embedding: (N, D), or the path of a ``.npy`` file of that shape, which is mapped and read by parts.
        curve: see :data:`Curve`; for example ``heads["customer"].response``.
        resources: the limits; a function of the arrays where they have costs, responses or members of accounts.
        columns: further arrays of all accounts, such as members (N,) or ``allowed`` (J, N).

    Raises:
        InvalidInput: embeddings or columns of a wrong shape.
    """

    def __init__(
        self,
        embedding: NDArray[Any] | str | Path,
        curve: Curve,
        resources: Resources,
        columns: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.embedding = Path(embedding).resolve() if isinstance(embedding, str | Path) else np.asarray(embedding)
        self.curve, self.resources, self.columns = curve, resources, dict(columns or {})
        rows = open_npy(self.embedding) if isinstance(self.embedding, Path) else self.embedding
        if rows.ndim != 2 or rows.size == 0:
            raise InvalidInput(f"must have shape (accounts, D) and not be empty, got {rows.shape}", field="embedding")
        self.accounts = int(rows.shape[0])
        for name, column in self.columns.items():
            if column.shape[-1] != self.accounts:
                raise InvalidInput(
                    f"must have {self.accounts} accounts, got {column.shape}", field=f"columns[{name!r}]"
                )

    @property
    def identity(self) -> object:
        """This very object."""
        return self

    def shards(self, count: int) -> Sequence[CurveSource]:
        """``count`` parts of neighbouring accounts."""
        return [
            CurveSource(
                self.embedding,
                self.curve,
                start,
                stop,
                {name: column[..., start:stop] for name, column in self.columns.items()},
            )
            for start, stop in parts(self.accounts, count)
        ]
