"""The requests that a campaign expects, as one problem whose matrices are made from curves a tile at a time."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.mapped import advise, open_npy
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.source import Arrays
from shadowprice.allocation.problem.problem import Problem, Resource
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidProblem

STEP = 1 << 14
"""Accounts computed at a time: their intermediate results should stay in the cache."""


@dataclass(frozen=True, eq=False)
class Money:
    """The limits on some requests; the money is that of all requests together.

    in_hand   minor units that may be spent, on top of what a mean earns
    of_sides  name → minor units that may be spent of a budget of one side; those that are not named do not limit
    """

    campaign: Campaign
    in_hand: float
    of_sides: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, arrays: Arrays) -> list[Resource]:
        """The resources of a campaign over the arrays of :meth:`CampaignProblem.arrays`, the main budget first."""
        budget = self.campaign.budget
        own = [
            Resource.total(each.name, arrays[cost_of(each.side)], self.of_sides[each.name])
            for each in self.campaign.side_budgets
            if each.name in self.of_sides
        ]
        if budget.form == "total":
            return [Resource.total(budget.name, arrays["cost"], self.in_hand), *own]
        # A mean per account is a mean per response where every request counts one.
        earned = arrays["measure"]
        return [Resource.per_response(budget.name, arrays["cost"], budget.limit, earned, carry=self.in_hand), *own]


def cost_of(side: str | None) -> str:
    """Return the name of the matrix with the cost of one side's requests, zero for the others."""
    return f"cost of {side}"


@dataclass(frozen=True, eq=False)
class SideSource:
    """Accounts [start, stop) of one side.

    path      file that the response is mapped from, for other processes; None where it is in memory
    requests  (N,), expected of each account of the side
    depth     levels J of the problem; those that the side lacks are not allowed
    masked    whether some side lacks levels: every shard has the same arrays
    """

    campaign: Campaign
    side: Side
    levels_of_side: NDArray[np.int64]
    response: NDArray[np.float32]
    requests: NDArray[np.float64]
    depth: int
    start: int
    stop: int
    masked: bool = False
    path: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process maps the file itself, or is sent its own accounts.
        own = slice(self.start, self.stop)
        state = {name: self.__dict__[name] for name in self.__dataclass_fields__}
        if self.path is None:
            mine = {"response": self.response[:, own], "requests": self.requests[own]}
            return state | mine | {"start": 0, "stop": self.accounts}
        return state | {"response": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.path is not None:
            self.__dict__["response"] = open_npy(self.path)

    @property
    def name(self) -> str:
        """Side and range of the accounts."""
        return f"{self.side} {self.start}–{self.stop}"

    @property
    def levels(self) -> int:
        """Number of levels J of the problem."""
        return self.depth

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return self.stop - self.start

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays."""
        mean, masked = self.campaign.budget.form != "total", self.masked
        sides = {cost_of(each.side) for each in self.campaign.side_budgets}
        return frozenset({"value", "cost", *sides, *(["measure"] if mean else []), *(["allowed"] if masked else [])})

    @property
    def grain(self) -> int:
        """A cache line of the response."""
        return WIDTH

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """Made ``STEP`` accounts at a time."""
        for start in range(0, self.accounts, STEP):
            stop = min(self.accounts, start + STEP)
            arrays = self.arrays(np.s_[start:stop], names)
            advise(self.response, self.start + start, self.start + stop, "DONTNEED")
            yield start, arrays

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Made for the accounts of the blocks only."""
        return self.arrays((starts[:, None] + np.arange(width)).ravel(), names)

    def held(self) -> SideSource:
        """Return the source with its response in memory; the matrices are still made at each pass."""
        own = slice(self.start, self.stop)
        response, requests = np.array(self.response[:, own]), self.requests[own]
        return replace(self, response=response, requests=requests, start=0, stop=self.accounts, path=None)

    def arrays(self, which: slice | NDArray[np.int64], names: Collection[str]) -> dict[str, NDArray[Any]]:
        """The named matrices (J, n) of some accounts, float64, times the requests of each; ``allowed`` is boolean."""
        own = slice(self.start, self.stop)
        response = np.asarray(self.response[:, own][:, which], dtype=np.float64)
        times, missing = self.requests[own][which], self.depth - response.shape[0]
        made: dict[str, NDArray[Any]] = {}
        for name in names:
            if name == "allowed":
                made[name] = np.arange(self.depth)[:, None] < np.full(times.size, response.shape[0])
                continue
            matrix = times * self._per_request(name, response)
            made[name] = np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix
        return made

    def _per_request(self, name: str, response: NDArray[np.float64]) -> NDArray[np.float64]:
        terms = self.campaign.terms(self.side)
        if name == "value":
            return terms.value(response)
        if name in ("cost", cost_of(self.side)):
            return terms.cost(response)
        if name.startswith("cost"):
            return np.zeros_like(response)
        return terms.measure(response) if self.campaign.budget.form == "per_response" else np.ones_like(response)


class CampaignProblem:
    """The rest of a campaign's window over all its accounts; the whole matrices never exist.

    Args:
        campaign: terms and form of the budget.
        curves: side → curves of its accounts, in memory or mapped from files.
        requests: side → (N,), requests expected of each account; one each by default.

    ``resources`` is the campaign's own limit, or the money in hand where that is set.

    Raises:
        InvalidProblem: no accounts, or curves whose levels are not the campaign's.
    """

    def __init__(
        self,
        campaign: Campaign,
        curves: Mapping[Side, Curves],
        requests: Mapping[Side, NDArray[np.float64]] | None = None,
    ) -> None:
        self.resources = Money(campaign, campaign.budget.limit if campaign.budget.form == "total" else 0.0)
        present: list[Side] = [side for side in SIDES if side in curves and curves[side].accounts]
        if not present:
            raise InvalidProblem("there is no request to allocate to", field="curves")
        for side in present:
            if tuple(curves[side].levels.tolist()) != campaign.terms(side).levels:
                raise InvalidProblem(f"levels of side {side!r} differ from the campaign's", field="curves")
        depth = max(curves[side].levels.size for side in present)
        self.sides: dict[Side, SideSource] = {
            side: SideSource(
                campaign,
                side,
                curves[side].levels,
                curves[side].response,
                np.ones(curves[side].accounts) if requests is None else requests[side],
                depth,
                0,
                curves[side].accounts,
                any(curves[other].levels.size < depth for other in present),
                curves[side].path,
            )
            for side in present
        }

    @property
    def identity(self) -> object:
        """This very object."""
        return self

    @property
    def accounts(self) -> int:
        """Number of accounts N of all sides."""
        return sum(source.accounts for source in self.sides.values())

    def tiles(self) -> Iterator[Arrays]:
        """All matrices, a few accounts at a time."""
        for source in self.sides.values():
            for _, arrays in source.tiles(source.names):
                yield arrays

    @property
    def columns(self) -> dict[Side, slice]:
        """Side → its accounts among all."""
        ends = np.cumsum([0, *(source.accounts for source in self.sides.values())]).tolist()
        return {side: slice(*ends[at : at + 2]) for at, side in enumerate(self.sides)}

    def whole(self) -> Problem:
        """The problem with its matrices in memory (S0 eq. 16–18); O(J·N) float64."""
        parts = [source.arrays(np.s_[:], source.names) for source in self.sides.values()]
        arrays = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        return Problem(arrays["value"], self.resources(arrays), arrays.get("allowed"))

    def shards(self, count: int) -> Sequence[SideSource]:
        """Parts of neighbouring accounts of one side each, customers first; ``count`` or one more."""
        parts: list[SideSource] = []
        for source in self.sides.values():
            share = min(max(1, round(count * source.accounts / self.accounts)), source.accounts)
            ends = np.linspace(0, source.accounts, share + 1).astype(int).tolist()
            parts += [replace(source, start=start, stop=stop) for start, stop in itertools.pairwise(ends)]
        return parts
