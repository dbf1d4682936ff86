"""Spend of policies by rows that their model has not learned from, beside the spend that its curves expect."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.campaign import Side
from shadowprice.evaluation.policy.frontier import RandomizedRows, spread, step_worth
from shadowprice.evaluation.policy.off_policy import importance
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.clusters import together
from shadowprice.evaluation.statistics.totals import StratifiedTotals
from shadowprice.policy import Choices


def held_out_spend(
    trials: Mapping[Side, RandomizedRows],
    held_out: Mapping[Side, NDArray[np.bool_]],
    allowed: Mapping[Side, NDArray[np.bool_] | None],
) -> dict[Side, HeldOutSpend]:
    """Estimate what policies at 40 prices pay on rows that their model has not learned from.

    Args:
        trials: side → rows of a trial, with the value and cost (J, n) that the model's curves expect of them.
        held_out: side → (n,), rows that the model has not learned from. Of the others only the mean error of each level
            is read, by which a model does not fit its rows too closely: as many rows as there are tell it.
        allowed: side → bool (J, n), levels that rules allow; None: all.

    With the error e = (cost − expected cost) / propensity of a row, and the rows H held out, a policy π pays beyond the
    expectation

        Σ_H e·(1[level = π] − β_level) / |H| + Σ e·β_level / n

    where β of a level is the share of its Σ_H e² in rows at which π chooses it. β = 0 is the doubly robust estimate by
    the held-out rows alone, and this one has the least variance (control variates). O(n · (J + 40)) for n rows.
    """
    expected = {side: (_real(trial.expected_value), _real(trial.expected_cost)) for side, trial in trials.items()}
    prices = spread(np.concatenate([step_worth(*pair) for pair in expected.values()]))[::-1]
    found = {}
    for side, (value, cost) in expected.items():
        trial, held, rows = trials[side], held_out[side], np.arange(cost.shape[1])
        level, choices = check_index(trial.level, len(cost)), Choices(value, cost, allowed[side])
        error = (_real(trial.cost) - cost[level, rows]) * importance(np.ones(rows.size), _real(trial.propensity))
        square, mean, beyond = np.bincount(level, held * error**2, minlength=len(cost)), [], []
        for price in prices:
            chosen = choices.decide([price], 0.5, rows).level
            own = held * (chosen == level)
            hit = np.bincount(level, own * error**2, minlength=len(cost))
            share = np.divide(hit, square, where=square > 0, out=np.zeros_like(hit))[level]
            mean.append(float(cost[chosen, rows][held].mean()))
            beyond.append(error * (share + (own - held * share) * rows.size / held.sum()))
        cells, first = together(rows.size, trial.account, trial.partner, fields=("account", "partner"))
        account = first if trial.account is None else np.asarray(trial.account)[first]
        partner = None if trial.partner is None else np.asarray(trial.partner)[first]
        sums = np.stack([cells.sums(score) for score in beyond], axis=1)
        total = StratifiedTotals([cells.sums(np.ones(rows.size))], [1.0], account, partner).of([sums])
        planned = np.array(mean)
        found[side] = HeldOutSpend(
            price=tuple(prices.tolist()),
            expected=tuple(planned.tolist()),
            paid=tuple((planned + total.value).tolist()),
            error=tuple(np.sqrt(total.variance).tolist()),
            rows=int(held.sum()),
        )
    return found


def _real(values: ArrayLike | None) -> NDArray[np.float64]:
    assert values is not None, "trials of a model have its expectations"
    return np.asarray(values, dtype=np.float64)
