"""Value and spend of a policy that was not served, from the requests of a campaign and their logged propensities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.metrics import dr_value, effective_rows, ips_value
from shadowprice.evaluation.statistics.intervals import Estimate, Interval

Array = NDArray[np.float64]

LEAST_ROWS = 100
"""Effective rows below which an estimate is refused."""
MOST_OUTSIDE = 0.05
"""Share of a side's requests, and of the value or spend that a model expects, that may lack overlap."""
ESTIMATORS = ("ips", "hajek", "dr")


@dataclass(frozen=True, eq=False)
class Target:
    """Policy of N requests.

    probability  (J, N), of each level; columns sum to 1
    value, cost  (J, N), what a model expects of each level; None where there is no model
    """

    probability: Array
    value: Array | None = None
    cost: Array | None = None


@dataclass(frozen=True)
class PolicyEstimate:
    """Estimate of a policy on the requests of a log.

    value, cost     per request, cost in minor units
    requests        that the estimate is of: the log could give them what the policy gives
    effective_rows  rows that the weighted mean is worth (Kish)
    outside         requests without overlap, which are left out
    outside_value   share of the policy's value that the model expects of these; None without a model
    """

    estimator: str
    value: Estimate
    cost: Estimate
    requests: int
    effective_rows: float
    outside: int = 0
    outside_value: float | None = None


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Requests with their probabilities under a policy.

    chosen, logged       (N,), probability of the given level under the policy and in the log
    predicted, expected  (2, N), value and cost that a model expects at the given level and under the policy
    """

    chosen: Array
    logged: Array
    predicted: Array
    expected: Array

    def take(self, rows: NDArray[np.bool_]) -> _Weighed:
        """Return some of the requests."""
        return _Weighed(self.chosen[rows], self.logged[rows], self.predicted[:, rows], self.expected[:, rows])

    def mean(self, place: int, outcome: Array, estimator: str, interval: Interval | None) -> Any:
        """Mean outcome under the policy; ``place`` is 0 for the value and 1 for the cost."""
        if estimator == "dr":
            models = self.predicted[place], self.expected[place]
            return dr_value(outcome, self.chosen, self.logged, *models, interval=interval)
        hajek = estimator == "hajek"
        return ips_value(outcome, self.chosen, self.logged, interval=interval, normalize=hajek)


@dataclass(frozen=True, eq=False)
class LoggedRows:
    """Requests of one or several sides that were decided with known probabilities.

    side         (N,)
    account      (N,)
    level        (N,), the level that was given
    propensity   side → (J, n), the logged probability of each level of its requests, conditional on the arm
    value, cost  (N,), the outcome
    """

    side: NDArray[np.str_]
    account: NDArray[np.str_]
    level: NDArray[np.intp]
    propensity: Mapping[str, Array]
    value: Array
    cost: Array

    def rows(self, side: str) -> NDArray[np.intp]:
        """Places of the requests of one side."""
        return np.flatnonzero(self.side == side)

    def estimate(
        self, target: Callable[[str], Target], estimator: str = "dr", *, level: float = 0.95, replications: int = 1000
    ) -> PolicyEstimate:
        """Estimate value and spend of a policy, with intervals that draw whole accounts.

        Requests that the log could not give what the policy gives are left out, and their number is in the estimate.

        Args:
            target: side → policy of its requests.
            estimator: ``ips`` (Horvitz and Thompson), ``hajek`` (weights sum to one) or ``dr`` (doubly robust).
            level, replications: of the intervals.

        Raises:
            InvalidInput: more than :data:`MOST_OUTSIDE` is left out, or the log is worth fewer than
                :data:`LEAST_ROWS` rows of the policy; the message names side, level and share.

        Source: Dudík, Langford and Li (2011); record 37. O(J·N + replications·N).
        """
        policies = {side: target(side) for side in self.propensity}
        weighed = self._weighed(policies.__getitem__, estimator)
        inside = np.ones(self.level.size, dtype=np.bool_)
        for side, policy in policies.items():
            inside[self.rows(side)] = self._overlap(side, policy.probability)
        outside = _shares(weighed.expected, ~inside)
        if outside.max() > MOST_OUTSIDE:
            raise InvalidInput(
                f"{outside.max():.1%} of its value or spend is of requests that the log could not give what the "
                f"policy gives, more than {MOST_OUTSIDE:.0%}; ask for a higher price or a smaller budget, or explore",
                field="policy",
            )
        weighed = weighed.take(inside)
        effective = effective_rows(weighed.chosen, weighed.logged)
        if effective < LEAST_ROWS:
            raise InvalidInput(
                f"the log is worth {effective:.0f} requests of this policy, fewer than {LEAST_ROWS}: it rarely gave "
                "what the policy gives; explore more, or wait for more requests",
                field="policy",
            )
        interval = Interval(level=level, cluster=self.account[inside], replications=replications)
        value, cost = (
            weighed.mean(place, outcome[inside], estimator, interval)
            for place, outcome in enumerate((self.value, self.cost))
        )
        return PolicyEstimate(
            estimator,
            value,
            cost,
            requests=int(inside.sum()),
            effective_rows=effective,
            outside=int((~inside).sum()),
            outside_value=None if any(result.value is None for result in policies.values()) else float(outside[0]),
        )

    def mean_cost(self, target: Callable[[str], Target], estimator: str = "dr") -> float:
        """Estimate the spend of a policy per request, in minor units, without an interval. O(J·N).

        The overlap is not checked: search with this, and call :meth:`estimate` of what is found. NaN where ``hajek``
        has no row of the policy.

        Args:
            target, estimator: as of :meth:`estimate`.
        """
        return float(self._weighed(target, estimator).mean(1, self.cost, estimator, None))

    def _weighed(self, target: Callable[[str], Target], estimator: str) -> _Weighed:
        require(estimator in ESTIMATORS, "estimator", f"must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
        n = self.level.size
        chosen, logged = np.empty(n), np.empty(n)
        predicted, expected = np.zeros((2, n)), np.zeros((2, n))
        for side, propensity in self.propensity.items():
            rows, policy = self.rows(side), target(side)
            at = (self.level[rows], np.arange(rows.size))
            chosen[rows], logged[rows] = policy.probability[at], propensity[at]
            for place, model in enumerate((policy.value, policy.cost)):
                if model is None:
                    require(
                        estimator != "dr", "estimator", "dr needs a model; choose ips or hajek, or give a workspace"
                    )
                    continue
                predicted[place, rows] = model[at]
                expected[place, rows] = (policy.probability * model).sum(axis=0)
        return _Weighed(chosen, logged, predicted, expected)

    def _overlap(self, side: str, probability: Array) -> NDArray[np.bool_]:
        """bool (n,): the requests of a side that the log could give every level that the policy gives."""
        impossible = (probability > 0) & (self.propensity[side] <= 0)
        inside: NDArray[np.bool_] = np.logical_not(impossible.any(axis=0))
        if inside.mean() < 1 - MOST_OUTSIDE:
            level = int(impossible.sum(axis=1).argmax())
            raise InvalidInput(
                f"the log could not give level {level}, which the policy gives, to {impossible[level].mean():.1%} of "
                f"the requests of side {side}; {MOST_OUTSIDE:.0%} may lack a level. Serve an arm of kind explore or "
                "set exploration; where it was on, limits left no room: ask for a higher price or a smaller budget",
                field="policy",
            )
        return inside


def _shares(expected: Array, rows: NDArray[np.bool_]) -> Array:
    """(2,): share of expected (2, N) value and cost that is of some requests; 0 where nothing is expected."""
    total = expected.sum(axis=1)
    mean: Array = np.divide(expected[:, rows].sum(axis=1), total, out=np.zeros(2), where=total > 0)
    return mean


def logged_rows(requests: pd.DataFrame, decisions: pd.DataFrame) -> LoggedRows:
    """Return the requests with their logged propensities.

    Args:
        requests: of :func:`~shadowprice.experiments.served.served_requests`; some of them.
        decisions: of the log, with ``request_id``, ``level`` and ``propensities``.

    Raises:
        InvalidInput: a request was answered without a level, or the log has no propensities of all levels.
    """
    decided = decisions.set_index("request_id").loc[requests["request_id"]]
    level = decided["level"].to_numpy(dtype=np.intp)
    InvalidInput.refuse_rows(level < 0, "has no level; such requests cannot be judged", field="decisions.level")
    sides = requests["side"].to_numpy(dtype=str)
    propensity = {}
    for side in dict.fromkeys(sides.tolist()):
        rows = decided["propensities"].to_numpy()[sides == side]
        if len({len(row) for row in rows}) != 1 or not len(rows[0]):
            raise InvalidInput("must have one number for each level", field=f"decisions.propensities of side {side}")
        propensity[side] = np.stack(rows).T.astype(np.float64)
    return LoggedRows(
        side=sides,
        account=requests["account_id"].to_numpy(dtype=str),
        level=level,
        propensity=propensity,
        value=requests["value"].to_numpy(dtype=np.float64),
        cost=requests["cost"].to_numpy(dtype=np.float64),
    )
