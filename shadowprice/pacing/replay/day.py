"""The requests of one campaign window, drawn from a profile or taken from a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput
from shadowprice.limits.coverage import SideRequests


@dataclass(frozen=True)
class Day:
    """N requests in order of arrival.

    request_id  str (N,), unique
    account_id  str (N,)
    side        str (N,), ``customer`` or ``merchant``
    at          float64 (N,), hours since the window opened, ascending
    hours       length of the window; every ``at`` lies in [0, hours)
    partner_id  str (N,), empty where a request has none
    context     name → object (N,), values of the context; None where a request has none
    """

    request_id: NDArray[np.str_]
    account_id: NDArray[np.str_]
    side: NDArray[np.str_]
    at: NDArray[np.float64]
    hours: int
    partner_id: NDArray[np.str_] | None = None
    context: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("request_id", "account_id", "side", "partner_id"):
            values = getattr(self, name)
            array = np.asarray(np.full(np.size(self.at), "") if values is None else values, dtype=np.str_)
            if array.shape != np.shape(self.at):
                raise InvalidInput(f"must have one entry for each of {np.size(self.at)} requests", field=name)
            object.__setattr__(self, name, array)
        at = np.asarray(self.at, dtype=np.float64)
        object.__setattr__(self, "at", at)
        if at.ndim != 1 or not np.all((at >= 0) & (at < self.hours)) or np.any(np.diff(at) < 0):
            raise InvalidInput(f"must be ascending hours in [0, {self.hours})", field="at")
        if np.unique(self.request_id).size != at.size:
            raise InvalidInput("must be unique", field="request_id")
        if not np.isin(self.side, SIDES).all():
            raise InvalidInput(f"must be one of {SIDES}", field="side")

    def __len__(self) -> int:
        return int(self.at.size)

    def take(self, index: Any) -> Day:
        """The requests at ``index`` (indices, mask or slice that keep the order of arrival)."""
        return Day(
            self.request_id[index],
            self.account_id[index],
            self.side[index],
            self.at[index],
            self.hours,
            self.partners[index],
            {name: values[index] for name, values in self.context.items()},
        )

    def of_side(self, side: Side) -> SideRequests:
        """Return the requests, all of one side, as conditions read them."""
        context = {name: values.tolist() for name, values in self.context.items()}
        return SideRequests(side, self.account_id.tolist(), self.partners.tolist(), context)

    @property
    def partners(self) -> NDArray[np.str_]:
        """str (N,), the partner of each request; empty where it has none."""
        assert self.partner_id is not None
        return self.partner_id

    def between(self, since: float, until: float) -> Day:
        """The requests from ``since`` on and before ``until``, in hours since the window opened."""
        first, last = np.searchsorted(self.at, [since, until])
        return self.take(slice(int(first), int(last)))

    def arrivals_before(self, at: float) -> dict[Side, NDArray[np.int64]]:
        """side → (⌈at⌉,), requests in each slot before ``at``, the last one in progress where ``at`` is not whole."""
        slots = int(np.ceil(at))
        earlier = self.at[: int(np.searchsorted(self.at, at))].astype(np.intp)
        sides = self.side[: earlier.size]
        return {side: np.bincount(earlier[sides == side], minlength=slots) for side in SIDES}

    def counts(self) -> dict[Side, NDArray[np.int64]]:
        """side → (hours,), requests in each slot."""
        return {side: np.bincount(self.at[self.side == side].astype(np.intp), minlength=self.hours) for side in SIDES}

    def batches(self, size: int) -> Iterator[Day]:
        """The requests in order, at most ``size`` at a time."""
        for first in range(0, len(self), size):
            yield self.take(slice(first, first + size))


@dataclass(frozen=True)
class Accounts:
    """The accounts of one side and how often each asks.

    account_id  str (N,), unique
    activity    float64 (N,), relative rate of requests
    """

    account_id: NDArray[np.str_]
    activity: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "account_id", np.asarray(self.account_id, dtype=np.str_))
        activity = np.asarray(self.activity, dtype=np.float64)
        object.__setattr__(self, "activity", activity)
        if activity.shape != self.account_id.shape or not np.all(np.isfinite(activity)) or np.any(activity < 0):
            raise InvalidInput("must be one rate ≥ 0 per account", field="activity")
        if not activity.sum() > 0:
            raise InvalidInput("at least one account must be active", field="activity")


def draw_day(
    expected: Mapping[Side, ArrayLike],
    accounts: Mapping[Side, Accounts],
    *,
    seed: int,
    name: str = "day",
    shock: Mapping[int, float] | None = None,
) -> Day:
    """A random window of requests.

    Args:
        expected: side → (hours,), mean requests in each slot; counts are Poisson.
        accounts: the callers; an account is drawn for each request in proportion to its activity.
        seed: every (seed, side, slot) has a random stream of its own, so that a shock in one slot
            leaves every other slot's requests, and their identifiers, as they were.
        name: first part of the request identifiers.
        shock: slot → factor on that slot's arrivals, which the forecast does not contain.
    """
    hours = max(np.size(mean) for mean in expected.values())
    factor = dict(shock or {})
    if any(not 0 <= slot < hours for slot in factor):
        raise InvalidInput(f"slots must lie in [0, {hours})", field="shock")
    parts: list[tuple[NDArray[np.str_], ...]] = []
    times: list[NDArray[np.float64]] = []
    for side, means in expected.items():
        who = accounts[side]
        share = who.activity / who.activity.sum()
        for slot, mean in enumerate(np.asarray(means, dtype=np.float64)):
            stream = np.random.default_rng([seed, SIDES.index(side), slot])
            count = int(stream.poisson(mean * factor.get(slot, 1.0)))
            times.append(slot + np.sort(stream.random(count)))
            chosen = who.account_id[stream.choice(share.size, size=count, p=share)]
            names = np.array([f"{name}-{seed}-{side}-{slot:02d}-{i:06d}" for i in range(count)], dtype=np.str_)
            parts.append((names, chosen, np.full(count, side)))
    at = np.concatenate(times)
    order = np.argsort(at, kind="stable")
    request_id, account_id, sides = (np.concatenate(column)[order] for column in zip(*parts, strict=True))
    # slot + u can round up to the next hour for u just below one.
    return Day(request_id, account_id, sides, np.minimum(at[order], np.nextafter(hours, 0)), hours)
