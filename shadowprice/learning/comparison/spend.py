"""Spend of a model's policy by the rows that the model has not learned from."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.campaign import Budget, Campaign, Side
from shadowprice.evaluation.policy.held_out_spend import held_out_spend
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.comparison.trials import trials_of
from shadowprice.learning.comparison.value import marked
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.window import able_accounts
from shadowprice.responses.sided import SidedModel


def spend_of_model(
    model: SidedModel, data: TrainingSet, campaign: Campaign, coverage: Coverage | None, splits: Sequence[str]
) -> dict[Side, HeldOutSpend]:
    """Return side → spend of the model's policy at several prices, by rows that it has not learned from.

    Args:
        model: the model.
        data: its training set.
        campaign: whose terms are paid.
        coverage: of its rules; None: all levels are allowed.
        splits: of the training set that the model has not learned from; empty: none.

    Returns:
        An empty mapping where it cannot be estimated: rows have no propensities, or a side has no held-out row that the
        rules allow an incentive.
    """
    if not splits:
        return {}
    held_out = {side: own["split"].isin(splits).to_numpy(dtype=np.bool_) for side, own in data.rows.items()}
    judged = replace(data, rows={side: own.assign(split="test") for side, own in data.rows.items()})
    curves = with_amounts(data, model.curves(data.inputs, judged.rows))
    if coverage is not None:
        curves = marked(coverage, judged, curves)
    able = {side: able_accounts(own) for side, own in curves.items()}
    curves = {side: own.take(able[side]) for side, own in curves.items()}
    held_out = {side: held_out[side][rows] for side, rows in able.items()}
    if not all(map(np.any, held_out.values())):
        return {}
    # Money paid, whatever the budget counts of it.
    paid = replace(campaign, budget=Budget(name=campaign.budget.name, limit=0), late_reserve=0, least_return=0.0)
    trials = trials_of(judged, paid, curves, able)
    if isinstance(trials, str):
        return {}
    return held_out_spend(trials, held_out, {side: own.allowed for side, own in curves.items()})


def unseen_splits(model: SidedModel, about: str, *, stopped: bool) -> tuple[str, ...]:
    """Return the splits of labeled requests that a model has not learned from.

    None are of sessions and segments, and of a flat policy, which has no accounts to prefer.

    Args:
        model: trained.
        about: what the data set is about, see :attr:`~shadowprice.responses.inputs.Inputs.about`.
        stopped: whether the validation rows have only stopped and calibrated it.
    """
    if about or not model.personal:
        return ()
    # A repair of the curves is fitted on the validation rows.
    return ("validation", "test") if stopped and model.unrepaired() is model else ("test",)
