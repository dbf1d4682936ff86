"""Responses and money that a replayed day added over the lowest level, and over the best flat incentive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Budget, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.policy.incremental import Added, added, cost_of_one, total
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.limits import Limits
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.outcomes import Outcomes
from shadowprice.pacing.window import solve_window
from shadowprice.policy import flat_shares

Over = Literal["lowest", "flat"]
Mixtures = Mapping[Side, NDArray[np.float64]]
"""side → (J,), share of its requests that is given each level."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Amounts that some requests added over a counterfactual.

    responses  in the unit of the side, or weighted by side where there are two
    cost       minor units
    cost_each  minor units per added response; NaN at equal spend
    """

    responses: Estimate
    cost: Estimate
    cost_each: Estimate

    def summary(self) -> dict[str, Any]:
        """Convert to JSON types; a value that is not finite becomes None."""
        return {name: _plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Amounts that a day added over a counterfactual.

    whole  of all requests, responses weighted by side
    sides  side → of its requests, responses in its own unit: redemptions, or share ratios
    """

    whole: Amounts
    sides: Mapping[Side, Amounts]

    def summary(self) -> dict[str, Any]:
        """Convert to JSON types."""
        return self.whole.summary() | {"sides": {side: compared.summary() for side, compared in self.sides.items()}}


def gains(setting: Setting, outcomes: Outcomes) -> dict[Over, Gain]:
    """Compare the outcomes of a day with every request at its lowest level, and with the best flat mixture.

    The curves that the outcomes were drawn from are known here, so the intervals cover the luck of the day alone.
    The flat mixture spends in the mean what the day has spent; where the lowest levels cost more, it is left out.
    O(requests · levels).
    """
    model = setting.outcomes

    def curves(side: Side, mine: NDArray[np.bool_]) -> Curves:
        return model.curves(side, outcomes.account_id[mine], outcomes.at[mine])

    return compare(setting.campaign, outcomes, curves, model.expected_units)


def compare(
    campaign: Campaign,
    outcomes: Outcomes,
    curves: Callable[[Side, NDArray[np.bool_]], Curves],
    units: Callable[[Side, NDArray[np.float64]], NDArray[np.float64]],
    propensity: NDArray[np.float64] | None = None,
) -> dict[Over, Gain]:
    """Compare outcomes with the two counterfactuals.

    Args:
        campaign: whose they are.
        outcomes: of N requests.
        curves: given side and mask (N,), the curves of those requests.
        units: given side and mean responses, the mean incentives that are paid for one answer.
        propensity: (N,) logged probability of each answer, which corrects curves of a model; None where they are known.
    """
    rows = {side: outcomes.side == side for side in campaign.sides if np.any(outcomes.side == side)}
    curves_of = {side: curves(side, mine) for side, mine in rows.items()}
    mixtures: dict[Over, Mixtures] = {"lowest": {side: np.eye(mine.levels.size)[0] for side, mine in curves_of.items()}}
    flat = flat_mixtures(campaign, curves_of, int(outcomes.cost.sum()))
    if flat is not None:
        mixtures["flat"] = flat
    return {
        over: _gain(campaign, outcomes, rows, curves_of, mixture, units, propensity, over == "lowest")
        for over, mixture in mixtures.items()
    }


def flat_mixtures(campaign: Campaign, curves: Mapping[Side, Curves], spend: int) -> Mixtures | None:
    """Best mixture of levels of each side that is the same for every request and costs ``spend`` minor units in all.

    None where the lowest levels cost more. The linear program has one account per side, with the mean curve.
    """
    budget = Budget(name=campaign.budget.name, limit=spend)
    plain = replace(campaign.without_arms(), budget=budget, late_reserve=0, limits=Limits())
    means = {side: mine.mean() for side, mine in curves.items()}
    ahead = {side: float(mine.accounts) for side, mine in curves.items()}
    solved = solve_window(plain, means, ahead, spend).allocation
    if solved.status != "optimal":
        return None
    return flat_shares(plain, means, solved.prices, solved.tie_share)


def _gain(
    campaign: Campaign,
    outcomes: Outcomes,
    rows: Mapping[Side, NDArray[np.bool_]],
    curves: Mapping[Side, Curves],
    mixtures: Mixtures,
    units: Callable[[Side, NDArray[np.float64]], NDArray[np.float64]],
    propensity: NDArray[np.float64] | None,
    costs: bool,
) -> Gain:
    sides: dict[Side, Amounts] = {}
    value = Added(np.zeros(len(outcomes)), np.zeros(len(outcomes)))
    cost = Added(np.zeros(len(outcomes)), np.zeros(len(outcomes)))
    for side, mine in rows.items():
        terms, response = campaign.terms(side), curves[side].response.astype(np.float64)
        chosen, chance = outcomes.level[mine], None if propensity is None else propensity[mine]
        paid = terms.expected_unit_costs(curves[side].amounts)
        expense = paid * (units(side, response) if terms.cost_basis == "on_response" else np.ones_like(response))
        more = added(outcomes.response[mine], chosen, response, mixtures[side], chance)
        money = added(outcomes.cost[mine].astype(np.float64), chosen, expense, mixtures[side], chance)
        sides[side] = _amounts(more, money, outcomes.account_id[mine], costs)
        worth = more.times(outcomes.worth[mine])
        value.amount[mine], value.residual[mine] = worth.amount, worth.residual
        cost.amount[mine], cost.residual[mine] = money.amount, money.residual
    return Gain(whole=_amounts(value, cost, outcomes.account_id, costs), sides=sides)


def _amounts(responses: Added, cost: Added, account: NDArray[np.str_], costs: bool) -> Amounts:
    unit_cost = cost_of_one(cost, responses, account) if costs else Estimate(np.nan, np.nan, np.nan)
    return Amounts(responses=total(responses, account), cost=total(cost, account), cost_each=unit_cost)


def _plain(found: Estimate) -> dict[str, float | None]:
    return {
        name: float(bound) if np.isfinite(bound := getattr(found, name)) else None for name in ("value", "low", "high")
    }
