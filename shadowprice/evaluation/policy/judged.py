"""Rows that judge a policy which was found on earlier rows, and their doubly robust scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.evaluation.policy.frontier import Granted, LoggedPolicies, RandomizedRows
from shadowprice.evaluation.policy.uniform import flat_levels
from shadowprice.evaluation.statistics.clusters import together
from shadowprice.evaluation.statistics.metric import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """Rows of one side, and the level that a policy gives each of them at G budgets.

    trial    rows, with the value and cost that curves expect which have not learned from them
    chosen   int (G, n)
    allowed  bool (J, n), levels that rules allow; None: all
    granted  shares of the requests that caps grant; None: no caps
    truth    expected value and cost (J, n) of each level, where they are known
    """

    trial: RandomizedRows
    chosen: NDArray[np.integer]
    allowed: NDArray[np.bool_] | None = None
    granted: Granted | None = None
    truth: tuple[Array, Array] | None = None

    def known(self) -> Judged | None:
        """Return the same rows with the truth in place of their outcomes; None where it is not known."""
        if self.truth is None:
            return None
        level, row = np.asarray(self.trial.level), np.arange(self.truth[0].shape[1])
        value, cost = (truth[level, row] for truth in self.truth)
        exact = replace(self.trial, value=value, cost=cost, expected_value=self.truth[0], expected_cost=self.truth[1])
        return replace(self, trial=exact)


@dataclass(frozen=True, kw_only=True, eq=False)
class Flat:
    """Flat mixtures at G costs.

    shares    side → (G, J), probability of each level, the same for every account
    marginal  (G,), value of one more minor unit in the best flat mixture
    """

    shares: Mapping[Side, Array]
    marginal: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Rows that judge one policy, with the flat mixture that costs the same; both were found on earlier rows."""

    rows: Mapping[Side, Judged]
    flat: Flat


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Sums of the scores of one side of a stage over cells of rows that every draw takes together.

    rows              (cells,)
    account, partner  (cells,) names; both are the number of the row where there are none
    cost, value       (cells, G) of the policy
    flat              (cells, G), value of the flat mixture at the cost of the policy
    level_cost, level_value  (cells, J), of each level for every request
    effective_rows    (G,), rows that the weights of the policy are worth
    """

    rows: Array
    account: NDArray[np.str_]
    partner: NDArray[np.str_]
    cost: Array
    value: Array
    flat: Array
    level_cost: Array
    level_value: Array
    effective_rows: Array

    @property
    def lowest(self) -> tuple[Array, Array]:
        """Cost and value (cells, 1) of the lowest level for every request."""
        return self.level_cost[:, :1], self.level_value[:, :1]

    @classmethod
    def of(cls, judged: Judged, shares: Array, marginal: Array) -> Scores:
        """Score the rows of one side against a flat mixture. O(n · (G + J) + cells · G · J).

        On these rows the mixture f costs a little more or less than the policy π. At the cost of π its value is

            Σ_j f_j Γ(j) + μ · (C(π) − Σ_j f_j C(j))

        with the scores Γ of value and C of cost, and the marginal value μ of money. It is linear in the scores.
        """
        trial, chosen = judged.trial, np.asarray(judged.chosen)
        levels, count = np.asarray(trial.expected_value).shape
        problem = f"must have shape ({marginal.size}, {count}), got {chosen.shape}"
        require(chosen.shape == (marginal.size, count), "chosen", problem)
        require(shares.shape == (marginal.size, levels), "flat.shares", f"must have shape ({marginal.size}, {levels})")
        cells, first = together(count, trial.account, trial.partner, fields=("trial.account", "trial.partner"))
        allowed = np.ones((levels, count), dtype=bool) if judged.allowed is None else judged.allowed
        policy, level = (
            LoggedPolicies(trial, iter(levels_of), levels, "dr", cells, judged.granted, judged.allowed)
            for levels_of in (chosen, flat_levels(allowed))
        )
        account = np.char.add("row ", first.astype(str)) if trial.account is None else np.asarray(trial.account)[first]
        partner = account if trial.partner is None else np.asarray(trial.partner)[first]
        return cls(
            rows=cells.sums(np.ones(count)),
            account=account.astype(str),
            partner=partner.astype(str),
            cost=policy.cost,
            value=policy.value,
            flat=level.value @ shares.T + marginal * (policy.cost - level.cost @ shares.T),
            level_cost=level.cost,
            level_value=level.value,
            effective_rows=policy.effective_rows,
        )
