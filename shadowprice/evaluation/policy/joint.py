"""Two ways of spending one budget on several sides, compared off-policy where both spend the whole budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import (
    Estimator,
    Granted,
    LoggedPolicies,
    RandomizedRows,
    decided,
    read_at,
    spread,
    step_worth,
)
from shadowprice.evaluation.policy.uniform import best_flat_value, flat_frontier, flat_levels
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, estimates, gathered
from shadowprice.evaluation.statistics.metric import Array

PolicyCurves = tuple[ArrayLike, ArrayLike]
"""Value and cost (J, N) of the curves that a policy decides by."""


@dataclass(frozen=True)
class AtBudget:
    """Two policies that share one price of money over all sides, where each spends the budget.

    budget          net minor units that all expected requests may cost
    price           of money at which the candidate spends it
    candidate, rival   value of all expected requests, with intervals
    difference      candidate − rival, its interval from the accounts that both share
    effective_rows  side → the fewest that the candidate's (and the incumbent's) weights are worth near that price
    least_cost      net minor units of the cheapest way to answer all requests; above ``budget`` nothing can be served
    """

    budget: float
    price: float
    candidate: Estimate
    rival: Estimate
    difference: Estimate
    effective_rows: Mapping[Side, float]
    least_cost: float


@dataclass(frozen=True, eq=False)
class FlatLimit:
    """A further budget that the best flat mixture keeps.

    trials  side → the rows, whose costs are what they take of it: 0 of a row that it does not count
    limit   minor units over all requests
    floor   whether ``limit`` is the least
    """

    trials: Mapping[Side, RandomizedRows]
    limit: float
    floor: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """Terms that two policies spend a budget by.

    requests     side → expected requests; a mean over the rows of a side counts so many times
    budget       net minor units for all requests: the limit of a total, the limit times all requests of a mean per
                 account, 0 of a mean per response
    exploration  share of requests whose level is drawn, under either policy
    weights      side → (J,), of drawn levels; a side that is missing draws uniformly
    allowed      side → bool (J, N), levels that rules allow, at least one of each row; a side that is missing has no
                 rule. A flat mixture gives the next lower level that is allowed
    granted      side → shares of the requests that caps grant a policy
                 (:class:`~shadowprice.evaluation.policy.frontier.LoggedPolicies`); a side that is missing has no caps
    further      budgets beside ``budget`` that the flat mixture keeps; curves have the prices of theirs in the value
    """

    requests: Mapping[Side, float]
    budget: float
    exploration: float = 0.0
    weights: Mapping[Side, NDArray[np.float64]] = field(default_factory=dict)
    allowed: Mapping[Side, NDArray[np.bool_]] = field(default_factory=dict)
    granted: Mapping[Side, Granted] = field(default_factory=dict)
    further: Sequence[FlatLimit] = ()

    def drawn(self, levels: Mapping[Side, Array]) -> Array:
        """(B,): sum over all requests if each draws its level, of means (B, J) less masked ones."""
        means = {side: np.ma.average(each, 1, self.weights.get(side)) for side, each in levels.items()}
        return np.asarray(np.sum([self.requests[side] * np.asarray(mean) for side, mean in means.items()], axis=0))


def at_budget(
    trials: Mapping[Side, RandomizedRows],
    candidate: Mapping[Side, PolicyCurves],
    incumbent: Mapping[Side, PolicyCurves] | None = None,
    *,
    spending: Spending,
    estimator: Estimator = "dr",
    interval: Interval | None = None,
) -> AtBudget:
    """Compare a candidate with the incumbent, or with the best flat mixture, at the budget of a campaign.

    Args:
        trials: side → rows that no policy was fitted on; costs are net of the allowance that a response earns.
        candidate, incumbent: side → (value (J, N), net cost (J, N)) of the curves that each decides by. Without an
            incumbent the rival is the best flat mixture of levels (:mod:`~shadowprice.evaluation.policy.uniform`).
        spending: requests, budget and rules that both keep.
        estimator: ``hajek``, or ``dr`` with the outcome models of the trials.
        interval: of the bootstrap; its cluster and partner are the trials' unless it has a cluster.

    One price of money decides for all sides, so a policy's frontier is the path of its total (cost, value) as the price
    falls. Every bootstrap sample reads the frontiers at the budget by linear interpolation, and chooses the flat
    mixture anew: its value errs upwards, against the candidate. An account of several sides is drawn with all its rows.

    O(Σ N · (L + J) · replications).

    Raises:
        InvalidInput: sides that differ, or an entry of a trial that cannot be.
    """
    sides, requests, exploration = list(trials), spending.requests, spending.exploration
    for name, by_side in (("candidate", candidate), ("incumbent", incumbent), ("requests", requests)):
        if by_side is not None and set(by_side) != set(sides):
            raise InvalidInput(f"needs the sides of the trials, {sorted(sides)}, got {sorted(by_side)}", field=name)
    cells, drawn = _gathered(trials, _interval(trials, interval))
    allowed, caps = spending.allowed, spending.granted

    def flats_of(rows: Mapping[Side, RandomizedRows]) -> dict[Side, LoggedPolicies]:
        count = {side: np.asarray(candidate[side][0]).shape[0] for side in sides}
        return {
            side: _flats(rows[side], count[side], estimator, cells[side], allowed.get(side), caps.get(side))
            for side in sides
        }

    flats, more = flats_of(trials), [flats_of(limit.trials) for limit in spending.further if incumbent is None]
    deciding = [curves for curves in (candidate, incumbent) if curves is not None]
    paths = [_Joint(trials, curves, spending, estimator, cells) for curves in deciding]
    sizes = [cells[side].size for side in sides]

    def values(weight: Array) -> Array:
        """Candidate, rival and their difference, (B, 3)."""
        parts = dict(zip(sides, np.split(weight, np.cumsum(sizes)[:-1], axis=1), strict=True))
        levels = {side: flats[side].at(part) for side, part in parts.items()}
        explored = [spending.drawn({side: levels[side][k] for side in sides}) for k in range(2)]
        left = (spending.budget - exploration * explored[1]) / (1 - exploration)
        own, *others = [path.read(parts, left) for path in paths]
        if others:
            other = others[0]
        else:
            taken = [{side: flat[side].at(part)[1] for side, part in parts.items()} for flat in more]
            other = _best_flat(levels, taken, spending, left)
        own, other = ((1 - exploration) * total + exploration * explored[0] for total in (own, other))
        return np.stack([own, other, own - other], axis=1)

    own, other, difference = estimates(values, sum(sizes), drawn)
    ones = {side: np.ones((1, size)) for side, size in zip(sides, sizes, strict=True)}
    levels = {side: flats[side].at(one) for side, one in ones.items()}
    drawn_cost = exploration * spending.drawn({side: levels[side][1] for side in sides}).item()
    left = (spending.budget - drawn_cost) / (1 - exploration)
    near = [path.nearest(ones, left) for path in paths]
    cheapest = sum(requests[side] * float(levels[side][1].min()) for side in sides)
    return AtBudget(
        spending.budget,
        float(paths[0].prices[near[0]]),
        own,
        other,
        difference,
        {
            side: min(float(path.of[side].effective_rows[place]) for path, place in zip(paths, near, strict=True))
            for side in sides
        },
        min((1 - exploration) * cheapest, *[(1 - exploration) * path.least(ones) for path in paths]) + drawn_cost,
    )


class _Joint:
    """The policies of one set of curves at common prices of money, on all sides."""

    def __init__(
        self,
        trials: Mapping[Side, RandomizedRows],
        curves: Mapping[Side, PolicyCurves],
        spending: Spending,
        estimator: Estimator,
        cells: Mapping[Side, Clusters],
    ) -> None:
        pairs = {side: (np.asarray(v, dtype=float), np.asarray(c, dtype=float)) for side, (v, c) in curves.items()}
        self.prices = spread(np.concatenate([step_worth(*pair) for pair in pairs.values()]))
        allowed, caps = spending.allowed, spending.granted
        self.of = {
            side: decided(trials[side], v, c, self.prices, estimator, cells[side], allowed.get(side), caps.get(side))[0]
            for side, (v, c) in pairs.items()
        }
        self._requests = spending.requests

    def _total(self, weight: Mapping[Side, Array]) -> tuple[Array, Array]:
        """Value and cost (B, L) of all requests."""
        totals = {side: policies.at(weight[side]) for side, policies in self.of.items()}
        value, cost = (
            np.sum([self._requests[side] * total[k] for side, total in totals.items()], axis=0) for k in range(2)
        )
        return value, cost

    def read(self, weight: Mapping[Side, Array], budget: Array) -> Array:
        """Value (B,) at the budget (B,)."""
        value, cost = self._total(weight)
        return np.concatenate(
            [read_at(value[b : b + 1], cost[b : b + 1], float(budget[b])) for b in range(len(budget))]
        )

    def nearest(self, weight: Mapping[Side, Array], budget: float) -> int:
        """Place of the price whose cost is nearest to the budget."""
        return int(np.argmin(np.abs(self._total(weight)[1][0] - budget)))

    def least(self, weight: Mapping[Side, Array]) -> float:
        """Cost at the highest price."""
        return float(self._total(weight)[1][0, 0])


def _flats(
    trial: RandomizedRows,
    levels: int,
    estimator: Estimator,
    cells: Clusters,
    allowed: NDArray[np.bool_] | None,
    granted: Granted | None,
) -> LoggedPolicies:
    """The policies that give every account one level, or what is nearest below it of those that are allowed."""
    rows = np.size(np.asarray(trial.level))
    places = flat_levels(np.ones((levels, rows), dtype=bool) if allowed is None else allowed)
    return LoggedPolicies(trial, iter(places), levels, estimator, cells, granted, allowed)


def _best_flat(
    levels: Mapping[Side, tuple[Array, Array]],
    taken: Sequence[Mapping[Side, Array]],
    spending: Spending,
    budget: Array,
) -> Array:
    """Value (B,) of the best flat mixture at the budget (B,) and within further ones; levels of no row are left out."""
    requests, exploration = spending.requests, spending.exploration
    values = np.full(len(budget), np.nan)
    for b in range(len(budget)):
        known = {side: np.isfinite(value[b]) & np.isfinite(cost[b]) for side, (value, cost) in levels.items()}
        if not all(rows.any() for rows in known.values()):
            continue
        value = {side: of_side[b][known[side]] for side, (of_side, _) in levels.items()}
        cost = {side: of_side[b][known[side]] for side, (_, of_side) in levels.items()}
        if not taken:
            path = flat_frontier(value, cost, requests)
            values[b] = np.interp(budget[b], path.cost, path.value)
            continue
        seen = [{side: np.ma.masked_invalid(use[side][b : b + 1]) for side in known} for use in taken]
        limits = [
            (limit.limit - exploration * spending.drawn(one).item()) / (1 - exploration)
            for limit, one in zip(spending.further, seen, strict=True)
        ]
        uses = ({side: use[side][b][known[side]] for side in known} for use in taken)
        floors = [False, *(limit.floor for limit in spending.further)]
        values[b] = best_flat_value(value, [cost, *uses], [float(budget[b]), *limits], floors, requests)
    return values


def _interval(trials: Mapping[Side, RandomizedRows], interval: Interval | None) -> Interval:
    chosen = interval or Interval()
    if chosen.cluster is not None or any(trial.account is None for trial in trials.values()):
        return chosen
    accounts = [np.asarray(trial.account, dtype=str) for trial in trials.values()]
    partners = [
        own if trial.partner is None else np.asarray(trial.partner, dtype=str)
        for own, trial in zip(accounts, trials.values(), strict=True)
    ]
    known = any(trial.partner is not None for trial in trials.values())
    return replace(chosen, cluster=np.concatenate(accounts), partner=np.concatenate(partners) if known else None)


def _gathered(trials: Mapping[Side, RandomizedRows], interval: Interval) -> tuple[dict[Side, Clusters], Interval]:
    """Cells of the rows of each side that every sample draws together, and the interval of all cells."""
    sizes = [np.size(np.asarray(trial.level)) for trial in trials.values()]
    ends = np.cumsum(sizes)[:-1]
    ways: list[list[ArrayLike | None]] = [
        [None] * len(sizes) if way is None else list(np.split(np.asarray(way), ends))
        for way in (interval.cluster, interval.partner)
    ]
    parts = [
        gathered(size, replace(interval, cluster=account, partner=partner))
        for size, account, partner in zip(sizes, *ways, strict=True)
    ]
    clusters, partners = (
        None if whole is None else np.concatenate([np.asarray(getattr(part, name)) for _, part in parts])
        for name, whole in (("cluster", interval.cluster), ("partner", interval.partner))
    )
    cells = dict(zip(trials, (cell for cell, _ in parts), strict=True))
    return cells, replace(interval, cluster=clusters, partner=partners)
