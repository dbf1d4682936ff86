"""Exploration as a priced resource: cost and benefit of a share of uniform draws.

A share ε of requests is given a level at random (:func:`shadowprice.decision.decide`), so that every
level of every kind of account keeps being observed with a known propensity. Its money comes out of
the same budget: prices are solved for what it leaves (:mod:`shadowprice.pacing.window`).
"""

from __future__ import annotations

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
from shadowprice.pacing.window import solve_window

EXPLORED = "explored"
"""Reason of an answer that was drawn."""


@dataclass(frozen=True)
class ExplorationReport:
    """Cost and benefit of exploration in one window.

    share           ε
    requests        that explored
    spend           minor units paid to them
    value_lost      optimum of the window's own requests without exploration less the optimum with it
    effective_rows  side → (J,), rows that an estimate of each level's mean response is worth
    """

    share: float
    requests: int
    spend: int
    value_lost: float
    effective_rows: Mapping[Side, NDArray[np.float64]]


def explored(setting: Setting, played: Replay) -> ExplorationReport:
    """Measure exploration in the replayed day of a setting; its loss is computed by the curves of the model."""
    campaign, outcomes, tried = setting.campaign, played.outcomes, played.answers.reason == EXPLORED
    curves: dict[Side, Curves] = {}
    for side in campaign.sides:
        mine = outcomes.side == side
        if mine.any():
            curves[side] = setting.marked(side, setting.model[side].of(outcomes.account_id[mine]), mine)
    budget = campaign.budget
    return ExplorationReport(
        share=campaign.exploration,
        requests=int(np.count_nonzero(tried)),
        spend=int(outcomes.cost[tried].sum()),
        value_lost=value_lost(campaign, curves, budget.limit if budget.form == "total" else 0.0),
        effective_rows=effective_rows_by_level(campaign, outcomes, played.answers.propensity),
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
