"""Levels of one request as its price saw them: the curve, and the score of each level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign
from shadowprice.price import PriceRecord


def level_rows(
    campaign: Campaign, decision: Mapping[str, Any], curve: NDArray[np.float64], price: PriceRecord
) -> list[dict[str, float]]:
    """One row for each level: incentive, response, expected cost, score (value less prices times cost), propensity.

    Args:
        campaign: with the terms of the decision; fewer levels than the curve has leave no row.
        decision: as the log has it.
        curve: (J,), responses of the account at each level.
        price: that the request was decided with.
    """
    side = decision["side"]
    terms = campaign.sides.get(side)
    if terms is None or len(terms.levels) != curve.size:
        return []
    response = curve[:, None]
    counted = str(decision["groups"] or "").split(",")
    bits = 0
    for place, each in enumerate(campaign.group_budgets):
        within = each.name in counted if each.condition else not each.partners or decision["partner_id"] in each.group
        bits |= int(each.side in (None, side) and within) << place
    charges = campaign.charges(side, response, np.array([bits], dtype=np.uint32))[:, :, 0]
    score = terms.value(response)[:, 0] - np.array(price.of(campaign.priced)) @ charges
    shares = [*decision["propensities"], *[0.0] * curve.size]
    columns = zip(terms.incentives, curve, terms.cost(response)[:, 0], score, shares, strict=False)
    return [
        {"incentive": paid, "response": each, "cost": cost, "score": worth, "propensity": share}
        for paid, each, cost, worth, share in columns
    ]
