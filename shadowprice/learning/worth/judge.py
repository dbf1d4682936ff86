"""One model at several budgets: its prices by held-out rows, and its decisions on later ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.spend_ratio import HeldOutSpend, solve_within, spend_ratio
from shadowprice.campaign import Budget, Campaign, Side
from shadowprice.curves import AMOUNT, Curves
from shadowprice.datasets.truth import true_curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.flat_before import flat_before
from shadowprice.evaluation.policy.frontier import LoggedPolicies, RandomizedRows
from shadowprice.evaluation.policy.judged import Judged, Stage
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.comparison.spend import spend_of_model
from shadowprice.learning.comparison.trials import side_requests, trial_of, trials_of
from shadowprice.learning.comparison.value import caps_ahead, marked, solve_rows
from shadowprice.learning.propensity import judged_propensity
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.window import WindowSolution, able_accounts
from shadowprice.policy import Choices, Policy
from shadowprice.responses.sided import SidedModel
from shadowprice.tables.database import Source

Levels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Terms:
    """Conditions under which a policy spends.

    campaign  whose budget, terms, rules and caps hold
    requests  side → requests expected in its window
    coverage  of the rules and of further budgets
    traffic   tells how often accounts and partners ask, for the caps
    """

    campaign: Campaign
    requests: Mapping[Side, float]
    coverage: Coverage
    traffic: Traffic

    def at(self, share: float) -> Campaign:
        """Return the campaign with a share of its budget, where every request is answered by price and model."""
        budget = self.campaign.budget
        limit = share * budget.limit
        return replace(
            self.campaign.without_arms(),
            budget=replace(budget, limit=round(limit) if budget.form == "total" else limit),
            late_reserve=0,
        )

    @property
    def paid(self) -> Campaign:
        """Return the campaign whose values and costs are those of the answers, whatever the budget limits."""
        budget = Budget(name=self.campaign.budget.name, limit=0)
        return replace(self.campaign, budget=budget, late_reserve=0, least_return=0.0)


class Rows:
    """Rows of one split that rules allow some level, with a model's curves, as trials in value and money paid."""

    def __init__(self, model: SidedModel, data: TrainingSet, terms: Terms, split: str) -> None:
        found = with_amounts(data, model.curves(data.inputs, data.part(split)))
        curves = marked(terms.coverage, data, found, split)
        self.able = {side: able_accounts(curve) for side, curve in curves.items()}
        self.curves = {side: curve.take(self.able[side]) for side, curve in curves.items()}
        if not all(curve.accounts for curve in self.curves.values()):
            raise InvalidInput(f"the rules allow no {split} row of a side an incentive", field="rules")
        trials = trials_of(data, terms.paid, self.curves, self.able, split)
        if isinstance(trials, str):
            raise InvalidInput(trials, field="propensity")
        self.trials = trials
        self.requests = {side: terms.requests[side] * float(able.mean()) for side, able in self.able.items()}
        campaign = terms.campaign
        self.caps = caps_ahead(campaign, self.curves, terms.requests, terms.traffic) if campaign.limits.caps else {}

    def decide(self, campaign: Campaign, policy: Policy | None) -> dict[Side, Levels]:
        """Levels (n,) of each side by a policy; without one, the cheapest ones."""
        levels = {}
        main, *further = [1.0, *(0.0 for _ in campaign.priced[1:])] if policy is None else policy.prices
        for side, curves in self.curves.items():
            net = Choices.marked(campaign, side, curves).net_of(np.array(further))
            if policy is None:
                net = replace(net, value=np.zeros_like(net.value))
            tie_share = policy.tie_share if policy else 0.0
            levels[side] = net.decide([main], tie_share, np.arange(curves.accounts)).level
        return levels


def judge(
    model: SidedModel, data: TrainingSet, terms: Terms, shares: Sequence[float], truth: Source | None = None
) -> Stage:
    """Decide the test rows of a training set at shares of the campaign's budget.

    Args:
        model: fitted on the training split, and stopped, calibrated and repaired on the validation split.
        data: the training set.
        terms: conditions.
        shares: (G,) of the campaign's budget.
        truth: account_id, side, level, response, where known.

    The price of each budget is solved on the curves of the validation rows, which count for all requests of the
    window. A total is spent as the outcomes of these rows show it
    (:mod:`~shadowprice.allocation.spend_ratio`). A budget that does not pay for the cheapest levels buys
    these. The flat mixture is chosen by training and validation rows, at the cost that the outcomes of the validation
    rows show (doubly robust): expected costs would err downwards, as the policy chooses the levels that the curves
    overrate.

    Raises:
        InvalidInput: rows without propensities, or no row of a side that rules allow an incentive.
        NotCertified: the campaign has no price.
    """
    before, rows = Rows(model, data, terms, "validation"), Rows(model, data, terms, "test")
    spend = _spend_before(model, data, terms)
    chosen: dict[Side, list[Levels]] = {side: [] for side in rows.curves}
    tried: dict[Side, list[Levels]] = {side: [] for side in rows.curves}
    for share in shares:
        campaign = terms.at(share)
        policy = _policy(campaign, before, terms.coverage, spend)
        for by_side, where in ((tried, before), (chosen, rows)):
            for side, level in where.decide(campaign, policy).items():
                by_side[side].append(level)
    levels = {side: curve.levels.size for side, curve in rows.curves.items()}
    above = np.sum([before.requests[side] * _above_lowest(before, side, tried[side]) for side in levels], axis=0)
    learned, allowed = _learned(data, terms)
    flat = flat_before(learned, levels, before.requests, above, allowed)
    return Stage(
        rows={
            side: Judged(
                trial=rows.trials[side],
                chosen=np.stack(chosen[side]),
                allowed=rows.curves[side].allowed,
                granted=rows.caps[side].share if side in rows.caps else None,
                truth=None
                if truth is None or terms.campaign.terms(side).worth == AMOUNT
                else _truth(truth, terms.paid, side, rows.trials[side], rows.curves[side]),
            )
            for side in levels
        },
        flat=flat,
    )


def _spend_before(model: SidedModel, data: TrainingSet, terms: Terms) -> dict[Side, HeldOutSpend]:
    """Spend of the model's policy by the rows before the test split, as the price of the model is corrected by it."""
    if terms.campaign.budget.form != "total":
        return {}
    rows = {side: frame[frame["split"] != "test"].reset_index(drop=True) for side, frame in data.rows.items()}
    return spend_of_model(model, replace(data, rows=rows), terms.campaign, terms.coverage, ("validation",))


def _policy(campaign: Campaign, rows: Rows, coverage: Coverage, spend: Mapping[Side, HeldOutSpend]) -> Policy | None:
    """Policy that spends the budget on some rows; None where it buys no more than the cheapest levels."""
    main = campaign.budget

    def solved_at(ratio: float) -> WindowSolution:
        limit = round(main.limit / ratio) if spend else main.limit
        own = replace(campaign, budget=replace(main, limit=limit))
        return solve_rows(own, rows.curves, rows.caps, rows.requests)

    solved, _ = solve_within(
        solved_at, lambda found: found.prices.get(main.name, 0.0), partial(spend_ratio, spend, rows.requests)
    )
    if solved.allocation.status != "optimal":
        return None
    prices = [solved.prices[name] for name in campaign.priced]
    policy = Policy(campaign, coverage, prices, solved.allocation.tie_share)
    cheapest, bought = rows.decide(campaign, None), rows.decide(campaign, policy)
    # Other rows may respond more than all of these: at their price some of them would be bought more.
    return None if all(np.array_equal(bought[side], cheapest[side]) for side in cheapest) else policy


def _above_lowest(rows: Rows, side: Side, chosen: Sequence[Levels]) -> NDArray[np.float64]:
    """Mean cost (G,) of decisions above that of the lowest level, doubly robust."""
    curves, caps = rows.curves[side], rows.caps.get(side)
    one = Clusters(np.zeros(curves.accounts, dtype=np.intp), 1)
    lowest = np.zeros(curves.accounts, dtype=np.int32)
    policies = LoggedPolicies(
        rows.trials[side],
        iter([lowest, *chosen]),
        curves.levels.size,
        "dr",
        one,
        None if caps is None else caps.share,
        curves.allowed,
    )
    cost = policies.at(np.ones((1, 1)))[1][0]
    return np.asarray(cost[1:] - cost[0])


def _learned(data: TrainingSet, terms: Terms) -> tuple[dict[Side, RandomizedRows], dict[Side, NDArray[np.bool_]]]:
    """Training and validation rows of every side that rules allow some level, and the levels (J, n) that they allow."""
    trials: dict[Side, RandomizedRows] = {}
    allowed: dict[Side, NDArray[np.bool_]] = {}
    for side, rows in data.rows.items():
        chance, learned = judged_propensity(rows), (rows["split"] != "test").to_numpy(dtype=np.bool_)
        assert chance is not None, "the trials of the judged rows were refused before"
        may = terms.coverage.allowed(side_requests(data, side, rows[learned]))
        if may is not None:
            able = may.any(axis=0)
            learned[learned] = able
            allowed[side] = may[:, able]
        asked = side_requests(data, side, rows[learned])
        own = terms.campaign.terms(side).worth != AMOUNT
        worth = terms.coverage.worth(asked) if own else None
        trials[side] = trial_of(rows[learned], chance[learned], terms.paid, side, worth)
    return trials, allowed


def _truth(
    truth: Source, campaign: Campaign, side: Side, trial: RandomizedRows, curves: Curves
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    response = true_curves(truth, side, np.asarray(trial.account), curves.levels.size)
    return campaign.terms(side).value(response, curves.worth), campaign.terms(side).cost(response, curves.amounts)
