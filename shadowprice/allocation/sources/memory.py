"""Accounts whose arrays are in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import kernel
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.source import Arrays, parts
from shadowprice.allocation.problem.problem import Problem, Resource, ResponseCost


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Named arrays; a matrix that serves twice has one name. One tile: nothing is gained by cutting."""

    name: str
    arrays: dict[str, NDArray[Any]]

    @property
    def levels(self) -> int:
        """Number of levels J."""
        return int(self.arrays["value"].shape[0])

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return int(self.arrays["value"].shape[1])

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays."""
        return frozenset(self.arrays)

    @property
    def grain(self) -> int:
        """A cache line."""
        return WIDTH

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """Return all accounts without a copy."""
        yield 0, {name: self.arrays[name] for name in names}

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Copies; O(J·sample)."""
        return {name: gather(self.arrays[name], starts, width) for name in names}

    def held(self) -> MemorySource:
        """Return the source, which is in memory already."""
        return self


def gather(array: NDArray[Any], starts: NDArray[np.int64], width: int) -> NDArray[Any]:
    """The blocks of a matrix (J, n) or a vector (n,)."""
    return kernel.gather(array, starts, width) if array.ndim == 2 else kernel.gather(array[None], starts, width)[0]


class MemoryProblem:
    """A problem in memory, to be cut into shards for other processes."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._names: dict[int, str] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._add(problem.value, "value")
        if problem.allowed is not None:
            self._add(problem.allowed, "allowed")
        self.resources = _Limits(tuple(self._named(resource) for resource in problem.resources))

    @property
    def identity(self) -> object:
        """The problem itself."""
        return self.problem

    def shards(self, count: int) -> Sequence[MemorySource]:
        """``count`` parts of neighboring accounts, views of the problem's arrays."""
        return [
            MemorySource(f"accounts {start}–{stop}", {name: a[..., start:stop] for name, a in self._arrays.items()})
            for start, stop in parts(self.problem.shape[1], count)
        ]

    def _add(self, array: NDArray[Any], name: str) -> str:
        if id(array) not in self._names:
            self._names[id(array)] = name
            # Neighboring accounts must be neighbors in memory for blocks to be copied.
            inner = array.strides[-1] == array.itemsize
            self._arrays[name] = array if inner else np.ascontiguousarray(array)
        return self._names[id(array)]

    def _named(self, resource: Resource) -> _Limit:
        cost = response = members = None
        charged, key = resource.cost, resource.name
        bare = charged
        if isinstance(charged, ResponseCost):
            if charged.response is not None:
                cost, bare = self._add(charged.response, f"{key}.cost"), ResponseCost(charged.levels, None)
        elif charged.ndim == 2:
            cost, bare = self._add(charged, f"{key}.cost"), np.zeros(1)
        if resource.response is not None:
            response = self._add(resource.response, f"{key}.response")
        if resource.members is not None:
            members = self._add(self.problem.members(resource), f"{key}.members")
        return _Limit(replace(resource, cost=bare, response=None, members=None), cost, response, members)


@dataclass(frozen=True, eq=False)
class _Limit:
    """A resource without its arrays, and their names."""

    bare: Resource
    cost: str | None
    response: str | None
    members: str | None


@dataclass(frozen=True, eq=False)
class _Limits:
    """Puts the arrays of some accounts back into the resources."""

    limits: tuple[_Limit, ...]

    def __call__(self, arrays: Arrays) -> list[Resource]:
        made = []
        for limit in self.limits:
            cost = limit.bare.cost
            if limit.cost is not None:
                matrix = arrays[limit.cost]
                cost = ResponseCost(cost.levels, matrix) if isinstance(cost, ResponseCost) else matrix
            response = None if limit.response is None else arrays[limit.response]
            members = None if limit.members is None else arrays[limit.members]
            made.append(replace(limit.bare, cost=cost, response=response, members=members))
        return made
