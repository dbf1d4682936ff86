"""Rows of a trial that a comparison values policies on."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import AMOUNT, Curves
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.graphs.partners import row_partners
from shadowprice.learning.propensity import judged_propensity
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits.coverage import SideRequests
from shadowprice.responses.base import labels, row_amounts


def side_requests(data: TrainingSet, side: Side, frame: pd.DataFrame) -> SideRequests:
    """Return some rows of a side as rules and budgets read them."""
    partner = frame["partner_id"].fillna("").astype(str).tolist() if "partner_id" in frame else ()
    context = {name: frame[name].tolist() for name in data.context.get(side, ())}
    return SideRequests(side, frame["account_id"].astype(str).tolist(), partner, context)


def trials_of(
    data: TrainingSet,
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    able: Mapping[Side, NDArray[np.bool_]],
    split: str = "test",
) -> dict[Side, RandomizedRows] | str:
    """Rows of a split of every side as trials in the campaign's value and net money, or why they are none.

    ``able`` chooses the rows of a side that the curves are of; all of a side that is missing.
    """
    trials: dict[Side, RandomizedRows] = {}
    for side, own in curves.items():
        rows = data.rows[side]
        test = rows["split"].to_numpy() == split
        if side in able:
            test[test] = able[side]
        chance = judged_propensity(rows)
        if chance is None:
            return (
                f"not every row of side {side!r} has a propensity or a balancing weight, so no policy's value can be "
                "estimated from them; log propensities, or weight the rows ('fitted')"
            )
        # The candidate has not seen these rows, so its curves may serve as the outcome model of every policy.
        value, cost = value_and_cost(campaign, side, own)
        trial = trial_of(rows[test], chance[test], campaign, side, own.worth)
        trials[side] = replace(
            trial,
            partner=row_partners(rows[test], side, data.snapshots),
            expected_value=value,
            expected_cost=cost,
        )
    return trials


def trial_of(
    frame: pd.DataFrame,
    chance: NDArray[np.float64],
    campaign: Campaign,
    side: Side,
    worth: NDArray[np.float64] | None = None,
) -> RandomizedRows:
    """Rows of a side as a trial in the campaign's value and net money, without curves; worth as in ``Terms.value``.

    The value is net of the campaign's least return of the cost. Where the worth is the amount of a response, the rows
    have their own, as it was observed.
    """
    terms = campaign.terms(side)
    level, y = labels(frame)
    if terms.worth == AMOUNT:
        worth = row_amounts(frame)
    cost = terms.paid(level, y, frame.get("paid"))
    if campaign.budget.form == "per_response":
        cost = cost - campaign.budget.limit * terms.measure(y)
    return RandomizedRows(
        level=level,
        value=terms.value(y, worth) - campaign.least_return * cost,
        cost=cost,
        propensity=chance,
        account=row_clusters(frame),
    )


def value_and_cost(campaign: Campaign, side: Side, curves: Curves) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Value and net cost (J, N) of the curves that a policy decides by."""
    value = campaign.terms(side).value(curves.response, curves.worth, curves.influence)
    cost = campaign.net_cost(side, curves.response, amounts=curves.amounts)
    return value - campaign.least_return * cost if campaign.least_return else value, cost
