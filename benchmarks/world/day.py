"""A campaign day on a generated data set whose truth is known, in process, and decisions at equal true spend."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.learning.outcome_model import populations, truth_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.history import fit_traffic
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import draw_day
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.tables import campaign_from_tables

HISTORY_ROWS = 4000
"""Past requests that the first price is solved on."""

Matrix = NDArray[np.float64]


def world_day(dataset: Dataset, data: TrainingSet, seed: int) -> Setting:
    """The day that the quickstart replays; its model is the truth until :func:`decided_by` gives another."""
    campaign = campaign_from_tables(dataset.tables)
    served = {side: frame["account_id"] for side, frame in data.serving.items()}
    traffic = fit_traffic(campaign, dataset.tables, served)
    forecast = traffic.forecast(campaign)
    truth = populations(data, truth_of(dataset, data, seed), campaign.coverage())
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, traffic.accounts, seed=seed, name=campaign.name),
        outcomes=OutcomeModel(campaign, truth, seed=seed),
        model=truth,
        forecast=forecast,
        history=past_traffic(traffic.accounts, HISTORY_ROWS, seed=seed),
    )


def decided_by(setting: Setting, curves: Mapping[Side, Curves]) -> Setting:
    """The setting with other curves (J, N) to decide by, of the accounts in the truth's order."""
    truth = setting.outcomes.truth
    return replace(setting, model={side: NamedCurves(truth[side].account_id, curves[side]) for side in truth})


def value_at_budget(setting: Setting, *, rounds: int = 50) -> float:
    """True value of the day when ``setting.model`` decides at the fixed price whose *true* mean cost is the budget.

    Pacing holds the spend whatever a model believes, so this is the value of its choice of accounts and levels. Between
    the two prices around the budget the value is interpolated. O(rounds · requests · levels).
    """
    parts = [_matrices(setting, side) for side in setting.campaign.sides]

    def at(price: float) -> tuple[float, float]:
        cost = value = 0.0
        for expected, charge, true_value, true_cost in parts:
            chosen = (np.argmax(expected - price * charge, axis=0), np.arange(expected.shape[1]))
            cost += float(true_cost[chosen].sum())
            value += float(true_value[chosen].sum())
        return cost, value

    low, high, budget = 1e-6, 10.0, setting.campaign.budget.limit
    for _ in range(rounds):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if at(middle)[0] > budget else (low, middle)
    (dear, much), (cheap, little) = at(low), at(high)
    share = (budget - cheap) / (dear - cheap) if dear > cheap else 0.0
    return little + float(np.clip(share, 0.0, 1.0)) * (much - little)


def _matrices(setting: Setting, side: Side) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """(J, n): expected value and cost of the model, then the true ones, of the day's requests of a side."""
    mine = setting.day.side == side
    accounts, terms = setting.day.account_id[mine], setting.campaign.terms(side)
    model = setting.model[side].of(accounts).response
    truth = setting.outcomes.curves(side, accounts, setting.day.at[mine]).response
    return terms.value(model), terms.cost(model), terms.value(truth), terms.cost(truth)
