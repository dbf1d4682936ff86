"""Accounts of one side as matrices that are made from curves a tile at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.mapped import advise, open_npy
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.source import Arrays
from shadowprice.allocation.sources.rows import MEMBERS, earned_by, members_of
from shadowprice.campaign import Campaign, Side
from shadowprice.limits import GroupBudget

STEP = 1 << 14
"""Accounts computed at a time: their intermediate results should stay in the cache."""

NOTHING = 1e-200
"""Value that is lost beside a request's, and still tells two levels apart."""


@dataclass(frozen=True, eq=False)
class SideSource:
    """Accounts [start, stop) of one side.

    path      file that the response is mapped from, for other processes; None where it is in memory
    requests  (N,), expected of each account of the side
    paid      (levels of the side, 1) or (levels of the side, N), expected cost of one incentive that is paid
    depth     levels J of the problem; those that the side lacks are not allowed
    masked    whether some side lacks levels, or a rule forbids one: every shard has the same arrays
    bits      (N,), the further budgets that count each account's requests; None: those of the side
    allowed   (levels of the side, N) that rules allow; None: all
    granted   (levels of the side, N), share of the requests that caps let a level be given to; None: all of them
    guards    name → (levels of the side,), expected second outcomes
    least     of a unit of cost: what values are net of
    worth     (N,) or (J, N), worth of a unit of each account's response; None: the same for all
    rows      name of each row → place of its budget among those that have a price, −1 where the row is of another part
    influence  (N,), value for the partners of each account of a minor unit; None: 0
    """

    campaign: Campaign
    side: Side
    response: NDArray[np.float32]
    requests: NDArray[np.float64]
    paid: NDArray[np.float64]
    depth: int
    start: int
    stop: int
    masked: bool = False
    path: Path | None = None
    bits: NDArray[np.uint32] | None = None
    allowed: NDArray[np.bool_] | None = None
    granted: NDArray[np.float32] | None = None
    worth: NDArray[np.float64] | None = None
    guards: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    least: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)
    influence: NDArray[np.float64] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process is sent its own accounts, and maps their columns of the file itself.
        state = {name: self.__dict__[name] for name in self.__dataclass_fields__}
        state |= self._own() | {"start": 0, "stop": self.accounts}
        if self.path is None:
            return state
        return state | {"response": None, "columns": self._columns()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.path is not None:
            self.__dict__["response"] = open_npy(self.path)[:, slice(*state["columns"])]

    def _columns(self) -> tuple[int, int]:
        """First and last column of the file that is mapped; those of the accounts."""
        first, _ = self.__dict__.get("columns", (0, 0))
        return first + self.start, first + self.stop

    def _own(self) -> dict[str, Any]:
        """Arrays of the source, of its own accounts alone."""
        own = slice(self.start, self.stop)
        names = ("requests", "bits", "allowed", "granted", "worth", "influence")
        arrays: dict[str, NDArray[Any] | None] = {name: getattr(self, name) for name in names}
        held = {name: None if array is None else array[..., own] for name, array in arrays.items()}
        return held | {"response": self.response[:, own], "paid": self._paid(own, np.s_[:])}

    def _paid(self, own: slice, which: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """(J, 1) or (J, n): expected cost of one paid incentive of some accounts."""
        return self.paid if self.paid.shape[1] == 1 else self.paid[:, own][:, which]

    @property
    def name(self) -> str:
        """Side and range of the accounts."""
        first, last = self._columns()
        return f"{self.side} {first}–{last}"

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
        own = {members_of(name) for name in self.rows}
        if self.rows:
            own |= {
                earned_by(group_budget.form)
                for group_budget in self.campaign.group_budgets
                if group_budget.form != "total"
            }
            own |= {limit.outcome for limit in self.campaign.group_budgets if limit.outcome}
        return frozenset({"value", "cost", *own, *(["measure"] if mean else []), *(["allowed"] if masked else [])})

    @property
    def outcomes(self) -> dict[str, GroupBudget]:
        """Second outcome → a budget of it, preferably one that counts the side."""
        ranked = sorted(self.campaign.group_budgets, key=lambda limit: limit.side in (None, self.side))
        return {limit.outcome: limit for limit in ranked if limit.outcome}

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
        own = self._own()
        own["response"] = np.array(own["response"])
        return replace(self, **own, start=0, stop=self.accounts, path=None)

    def arrays(self, which: slice | NDArray[np.int64], names: Collection[str]) -> dict[str, NDArray[Any]]:
        """The named matrices (J, n) of some accounts, float64, times the requests of each.

        ``allowed`` is boolean, and so are the members (n,) of rows.
        """
        own = slice(self.start, self.stop)
        response = np.asarray(self.response[:, own][:, which], dtype=np.float64)
        times, missing = self.requests[own][which], self.depth - response.shape[0]
        made: dict[str, NDArray[Any]] = {}
        for name in names:
            if name == "allowed":
                made[name] = np.arange(self.depth)[:, None] < np.full(times.size, response.shape[0])
                if self.allowed is not None:
                    made[name][: response.shape[0]] &= self.allowed[:, own][:, which]
                continue
            if name.startswith(MEMBERS):
                made[name] = self._members(self.rows[name.removeprefix(MEMBERS)], times.size, own, which)
                continue
            matrix = times * self._per_request(name, response, own, which)
            if name == "value":
                if self.least:
                    matrix -= self.least * times * self._per_request("cost", response, own, which)
                # Else every level of an account without requests were tied at every price, and no pass would settle it.
                matrix[1:, times == 0.0] = -NOTHING
            made[name] = np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix
        return made

    def _members(self, place: int, count: int, own: slice, which: slice | NDArray[np.int64]) -> NDArray[np.bool_]:
        if place < 0:
            return np.zeros(count, dtype=np.bool_)
        if self.bits is None:
            return np.full(count, self.campaign.group_budgets[place].side in (None, self.side))
        return np.asarray(self.bits[own][which] >> np.uint32(place) & np.uint32(1), dtype=np.bool_)

    def _per_request(
        self, name: str, response: NDArray[np.float64], own: slice, which: slice | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        terms = self.campaign.terms(self.side)
        if name == "value":
            both = (None if own_is is None else own_is[..., own][..., which] for own_is in (self.worth, self.influence))
            made = terms.value(response, *both)
        elif name == "cost":
            made = self._paid(own, which) * terms.measure(response)
        elif name in self.outcomes:
            made = self.outcomes[name].expected_outcome(self.side, response.shape, self.guards)
        else:
            form = self.campaign.budget.form if name == "measure" else name.removeprefix(earned_by(""))
            if form != "per_response":
                return np.ones_like(response)
            made = terms.measure(response)
        if self.granted is None:
            return made
        # Requests above a cap get the level without incentive, or nothing where that is missing or not allowed.
        instead = made[:1] if terms.unit_costs[0] == 0 else np.zeros_like(made[:1])
        if self.allowed is not None:
            instead = np.where(self.allowed[:1, own][:, which], instead, 0.0)
        return np.asarray(instead + self.granted[:, own][:, which] * (made - instead))
