"""Sources of accounts: arrays that can be read a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.problem import Problem, Resource
from shadowprice.errors import InvalidProblem

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays of the same accounts: matrices (J, n), vectors (n,)."""

Resources = Sequence[Resource] | Callable[[Arrays], Sequence[Resource]]
"""The limits, or how they are made from the arrays of some accounts: ``lambda a: [Resource.total(…, a["cost"], …)]``.

Forms, names, limits and levels must not depend on the accounts; limits are those of all accounts together.
"""

TILE = 20 << 20
"""Bytes of a tile: large enough for the kernel's threads, small beside any machine's memory."""


class Source(Protocol):
    """The accounts of one shard.

    name      in errors
    levels    J
    accounts  N
    names     its arrays; ``value`` is one, ``allowed`` may be
    grain     how many neighboring accounts are read as fast as one
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def levels(self) -> int: ...  # noqa: D102
    @property
    def accounts(self) -> int: ...  # noqa: D102
    @property
    def names(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def grain(self) -> int: ...  # noqa: D102

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """All accounts in order, a tile at a time, each with its first account's position.

        The arrays of a tile are valid until the next is asked for.
        """

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Copies of the blocks of ``width`` neighboring accounts that begin at ``starts``, side by side."""

    def held(self) -> Source:
        """Return the source with its arrays in memory."""


class Sharded(Protocol):
    """A problem whose accounts are described rather than held: :class:`StoredProblem`."""

    @property
    def resources(self) -> Resources: ...  # noqa: D102
    @property
    def identity(self) -> object:
        """Equal for problems of the same accounts and arrays, whatever their limits."""

    def shards(self, count: int) -> Sequence[Source]:
        """The accounts in order, in ``count`` parts where they can be parted freely."""


@dataclass(frozen=True, eq=False)
class Assembly:
    """Assembly of a problem from the arrays of some accounts."""

    resources: Resources

    def resources_of(self, arrays: Arrays) -> Sequence[Resource]:
        """The limits on some accounts."""
        made = self.resources(arrays) if callable(self.resources) else self.resources
        return (made,) if isinstance(made, Resource) else tuple(made)

    def __call__(self, arrays: Arrays) -> Problem:
        """The problem of some accounts, checked."""
        return Problem(arrays["value"], self.resources_of(arrays), arrays.get("allowed"))

    def needs(self, arrays: Arrays) -> tuple[Problem, frozenset[str]]:
        """A problem of a few accounts, and which arrays its limits are made of."""
        asked = _Asked(arrays)
        try:
            limits = self.resources_of(asked)
        except KeyError as error:
            raise InvalidProblem(f"there is no array {error}; there are {sorted(arrays)}", field="resources") from error
        for limit in limits:
            if limit.members is not None and limit.members.dtype != np.bool_:
                raise InvalidProblem("must be a boolean per account, not indices", field=f"{limit.name}.members")
        return Problem(arrays["value"], limits, arrays.get("allowed")), frozenset(asked.names)


def parts(accounts: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of at most ``count`` parts of neighboring accounts."""
    return list(pairwise(np.linspace(0, accounts, min(count, accounts) + 1).astype(int).tolist()))


class _Asked(Mapping[str, NDArray[Any]]):
    """Arrays that record which of them were read."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> NDArray[Any]:
        self.names.add(name)
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)
