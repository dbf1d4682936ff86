"""Parts of a list before they are decided: accounts, the levels that rules and caps leave them, and their arms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.arms import Treatment
from shadowprice.curves import Curves
from shadowprice.lists.rows import request_ids
from shadowprice.policy import Eligible

ROWS = 1 << 16
"""Accounts decided at a time."""


@dataclass(frozen=True, eq=False)
class SideList:
    """Accounts of one side, each once.

    account_id  (n,)
    curves      (J, n), as the service computes them
    known       bool (n,), whether the model has an embedding of each
    """

    account_id: pa.StringArray
    curves: Curves
    known: NDArray[np.bool_]

    @property
    def slices(self) -> Iterator[slice]:
        """Slices of at most :data:`ROWS` accounts."""
        n = len(self.account_id)
        return (slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS))


class Names(Sequence[str]):
    """Names of accounts, which are made texts of Python only where they are read."""

    def __init__(self, names: pa.StringArray) -> None:
        self._names = names

    @cached_property
    def _texts(self) -> list[str]:
        return cast(list[str], self._names.to_pylist())

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, at: Any) -> Any:
        return self._texts[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


@dataclass(frozen=True, eq=False)
class Asked:
    """Some accounts of a side: n, of which m may be given some level.

    rows      of the accounts among all of their side
    names     n accounts
    eligible  m of them
    capped    bool (n,), whether caps alone leave an account no level
    beyond    bool (J, m), levels that rules allow and caps do not; None without caps
    arm       (n,)
    treated   of the m
    curves    of the m
    prefix    campaign and list, of which ids are made
    """

    rows: slice
    names: Names
    eligible: Eligible
    capped: NDArray[np.bool_]
    beyond: NDArray[np.bool_] | None
    arm: NDArray[np.str_]
    treated: Treatment
    curves: Curves
    prefix: tuple[str, str]

    @cached_property
    def ids(self) -> list[str]:
        """N request ids."""
        return request_ids(*self.prefix, self.eligible.requests.side, self.names)

    @property
    def asked_ids(self) -> Sequence[str]:
        """M request ids, each made where it is read; all at once where some explore, as the rule reads those all."""
        if self.treated.exploration.any():
            _ = self.ids
        return _Ids(self)


class _Ids(Sequence[str]):
    """Ids of the requests of a part that may be given some level: the rule reads those that tie or explore alone."""

    def __init__(self, part: Asked) -> None:
        self._part = part

    def __len__(self) -> int:
        return int(self._part.eligible.rows.size)

    def __getitem__(self, at: Any) -> Any:
        part, row = self._part, int(self._part.eligible.rows[at])
        if "ids" in part.__dict__:
            return part.ids[row]
        return request_ids(*part.prefix, part.eligible.requests.side, [part.names[row]])[0]
