"""Exploration as a priced resource: its cost and benefit, and the weights with which the same loss buys more.

A share ε of requests is given a level at random (:func:`shadowprice.decision.decide`), so that every
level of every kind of account keeps being observed with a known propensity. Its money comes out of
the same budget: prices are solved for what it leaves (:mod:`shadowprice.pacing.window`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.policy.off_policy import effective_rows
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.outcomes import Outcomes
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.window import able_accounts, solve_window
from shadowprice.policy import Choices
from shadowprice.price import PriceRecord

EXPLORED = "explored"
"""Reason of an answer that was drawn."""

CLOSE = 0.03
"""Loss at which a level is half as likely as the best one, as a share of a request's mean loss."""

LEAST_WEIGHT = 0.1
"""Least weight of a level, where the mean over the levels is 1: distant levels keep being tried."""

MOST_SHARE = 0.5
"""Largest share of the requests that a proposal lets explore."""


@dataclass(frozen=True)
class Draws:
    """Expected draws of one side at a price, beside decisions at the same price.

    requests        of the side that draw their level
    lost            value less money at the price, by which these draws are expected to be below the best levels
    levels          the two levels that the price decides between most often: the best and the second best of a request
    effective_rows  rows of a trial with these two levels alone that their comparison is worth, by weights 1/propensity
    """

    requests: float
    lost: float
    levels: tuple[int, int]
    effective_rows: float


def draws_at(
    campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float], price: PriceRecord
) -> dict[Side, Draws]:
    """side → expected draws of the requests to come that explore by the campaign's share and weights.

    Args:
        campaign: terms, share and weights. Its arms are left out.
        curves: side → marked curves of accounts, each of which makes its share of the requests of its side.
        ahead: side → requests expected.
        price: at which the others are decided.

    With the propensities p of the two levels, and n requests that may be given both, the comparison is worth
    4n / (mean 1/p_a + mean 1/p_b) rows: as many as a trial that gives each of the two with probability 1/2. O(Σ J·n).
    """
    found: dict[Side, Draws] = {}
    for side, mine in curves.items():
        choices, behind, allowed, weight = _behind(campaign, side, mine, price)
        if len(behind) < 2 or not weight.size:
            continue
        ids = range(weight.size)
        policy = choices.decide(price.of(campaign.priced), price.tie_share, ids, campaign.exploration).policy
        law = replace(policy, exploration=np.ones(weight.size)).propensities()
        two = np.sort(np.argsort(behind, axis=0, kind="stable")[:2], axis=0)
        pair, count = np.unique(two, axis=1, return_inverse=True)
        levels = pair[:, np.bincount(count.ravel(), weight).argmax()]
        both = allowed[levels].all(axis=0)
        with np.errstate(divide="ignore"):
            inverse = (1.0 / policy.propensities()[levels][:, both]).sum(axis=0)
        share, n = campaign.exploration, ahead[side] * float(weight.sum())
        found[side] = Draws(
            requests=n * share,
            lost=n * share * float(weight @ (law * np.where(allowed, behind, 0.0)).sum(axis=0)) / float(weight.sum()),
            levels=(int(levels[0]), int(levels[-1])),
            effective_rows=4.0 * ahead[side] * float(weight[both].sum()) ** 2 / float(weight[both] @ inverse),
        )
    return found


def uniform_at_equal_loss(
    campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float], price: PriceRecord
) -> Campaign:
    """Return the campaign with uniform draws of as many requests as lose what its own draws lose at a price."""
    plain = replace(campaign, exploration_weights={})
    own, other = (_lost(each, curves, ahead, price) for each in (campaign, plain))
    return replace(plain, exploration=min(campaign.exploration * (own / other if other > 0 else 1.0), 0.99))


def near_the_price(
    campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float], price: PriceRecord, share: float
) -> Campaign:
    """Return the campaign with weights that draw levels near the decision more often, at the loss of uniform draws.

    The loss of a level is how far its score at the price is below the best of its request. A level is as likely as the
    inverse of its loss, which is rounded up (inverse gap weighting, Abe and Long 1999), as the mean over the requests
    that may be given it; :data:`LEAST_WEIGHT` bounds it below. A side gets weights only where, at the loss of the same
    side, they buy more :attr:`Draws.effective_rows` than uniform draws: where most requests have the same best level,
    they would draw little else. ``exploration`` is the share of requests with which the draws of all sides lose as much
    as uniform draws of the share ``share`` would, at most :data:`MOST_SHARE`.

    Other arguments are those of :func:`draws_at`. O(Σ J·n).
    """
    plain = replace(campaign, exploration=share, exploration_weights={})
    uniform = draws_at(plain, curves, ahead, price)
    weights: dict[Side, dict[str, float]] = {}
    for side in uniform:
        law = dict(zip(campaign.offer_ids[side], _inverse_gaps(campaign, side, curves[side], price), strict=True))
        near = _at_loss(replace(plain, exploration_weights={side: law}), {side: curves[side]}, ahead, price, uniform)
        if draws_at(near, {side: curves[side]}, ahead, price)[side].effective_rows > uniform[side].effective_rows:
            weights[side] = law
    return _at_loss(replace(plain, exploration_weights=weights), curves, ahead, price, uniform)


def _at_loss(
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    ahead: Mapping[Side, float],
    price: PriceRecord,
    uniform: Mapping[Side, Draws],
) -> Campaign:
    """Return the campaign with the share of draws that loses what uniform draws of the sides of ``curves`` lose."""
    own, other = _lost(campaign, curves, ahead, price), sum(uniform[side].lost for side in curves if side in uniform)
    share = campaign.exploration * (other / own if own > 0 else 1.0)
    return replace(campaign, exploration=max(campaign.exploration, round(min(share, MOST_SHARE), 4)))


def _inverse_gaps(campaign: Campaign, side: Side, curves: Curves, price: PriceRecord) -> list[float]:
    """Weights of the levels of a side, with mean 1."""
    _, behind, allowed, weight = _behind(campaign, side, curves, price)
    count = allowed.sum(axis=0)
    mean = np.maximum(np.where(allowed, behind, 0.0).sum(axis=0) / count, np.finfo(np.float64).tiny)
    near = np.where(allowed, 1.0 / (CLOSE + behind / mean), 0.0)
    near *= count / near.sum(axis=0)
    asked = allowed @ weight
    law = np.divide(near @ weight, asked, where=asked > 0, out=np.ones(len(near)))
    weights: list[float] = np.round(LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * law / law.mean(), 3).tolist()
    return weights


def _lost(campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float], price: PriceRecord) -> float:
    return sum(each.lost for each in draws_at(campaign, curves, ahead, price).values())


def _behind(
    campaign: Campaign, side: Side, curves: Curves, price: PriceRecord
) -> tuple[Choices, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Levels of the accounts that may be given one, how far each is below the best, which are allowed, and their
    shares of the requests of the side.
    """
    able = able_accounts(curves)
    few = curves if able.all() else curves.take(able)
    choices = Choices.marked(campaign, side, few)
    scores = choices.scores(price.of(campaign.priced))
    allowed = np.ones(scores.shape, dtype=np.bool_) if choices.allowed is None else choices.allowed
    best = np.where(allowed, scores, -np.inf).max(axis=0)
    return choices, np.where(allowed, best - scores, np.inf), allowed, curves.shares()[able]


@dataclass(frozen=True)
class ExplorationReport:
    """Cost and benefit of exploration in one window.

    share           ε
    requests        that explored
    spend           minor units paid to them
    value_lost      optimum of the window's own requests without exploration less the optimum with it
    effective_rows  side → (J,), rows that an estimate of each level's mean response is worth
    draws           side → draws expected at the window's first price
    uniform         the same of uniform draws with the same loss; empty without weights
    """

    share: float
    requests: int
    spend: int
    value_lost: float
    effective_rows: Mapping[Side, NDArray[np.float64]]
    draws: Mapping[Side, Draws]
    uniform: Mapping[Side, Draws]


def explored(setting: Setting, played: Replay) -> ExplorationReport:
    """Measure exploration in the replayed day of a setting; its loss is computed by the curves of the model."""
    campaign, outcomes, tried = setting.campaign, played.outcomes, played.answers.reason == EXPLORED
    curves: dict[Side, Curves] = {}
    for side in campaign.sides:
        mine = outcomes.side == side
        if mine.any():
            curves[side] = setting.marked(side, setting.model[side].of(outcomes.account_id[mine]), mine)
    budget, ahead = campaign.budget, {side: float(mine.accounts) for side, mine in curves.items()}
    draws: dict[Side, Draws] = {}
    uniform: dict[Side, Draws] = {}
    if played.prices and campaign.exploration and not campaign.segments:
        price = played.prices[0][1].record
        draws = draws_at(campaign, curves, ahead, price)
        if campaign.exploration_weights:
            plain = uniform_at_equal_loss(campaign, curves, ahead, price)
            uniform = draws_at(plain, curves, ahead, price)
    return ExplorationReport(
        share=campaign.exploration,
        requests=int(np.count_nonzero(tried)),
        spend=int(outcomes.cost[tried].sum()),
        value_lost=value_lost(campaign, curves, budget.limit if budget.form == "total" else 0.0),
        effective_rows=effective_rows_by_level(campaign, outcomes, played.answers.propensity),
        draws=draws,
        uniform=uniform,
    )


def value_lost(campaign: Campaign, curves: Mapping[Side, Curves], left: float) -> float:
    """Weighted response that exploring costs the requests with ``curves`` when ``left`` minor units are in hand."""
    ahead = {side: float(mine.accounts) for side, mine in curves.items()}
    without = solve_window(replace(campaign, exploration=0.0), curves, ahead, left)
    return without.primal - solve_window(campaign, curves, ahead, left).primal


def effective_rows_by_level(
    campaign: Campaign, outcomes: Outcomes, propensity: NDArray[np.float64]
) -> dict[Side, NDArray[np.float64]]:
    """side → (J,): Kish's (Σ w)² / Σ w² over the requests given level j, each weighing 1/propensity.

    It is the number of rows of a uniform trial that would estimate the level's mean as well; 0 for a
    level that no request was given.
    """
    rows_of: dict[Side, NDArray[np.float64]] = {}
    for side, terms in campaign.sides.items():
        mine = outcomes.side == side
        levels, chance = outcomes.level[mine], propensity[mine]
        rows_of[side] = np.array(
            [float(effective_rows((levels == level).astype(float), chance)) for level in range(len(terms.levels))]
        )
    return rows_of
