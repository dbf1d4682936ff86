"""Questions about a delivery: the plan's predicted value and the prices of places with other sizes and fees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from operations.common.workspace import MODEL
from shadowprice.campaign import Campaign, place_limits, places_of
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import mean
from shadowprice.pacing.places import DeliveryPlan, plan_places, side_of
from shadowprice.pacing.spend import CapUse


def ask_delivery(workspace: Path, campaign: Campaign, sizes: Mapping[str, int], shares: Mapping[str, float]) -> Any:
    """Return the plan as it is and with other sizes and fees, by the values of the model in use.

    The segment ``none`` takes the accounts beyond the sizes. Intervals say how much the value changes with other
    accounts like these; the error of the model is not in them.

    Returns:
        In JSON types: ``current`` and ``asked``, each with ``value`` (predicted, minor units), ``low`` and ``high`` of
        its interval, ``gap`` and ``places``; ``change``, the difference of the two values with its interval.

    Raises:
        InvalidInput: there is no such segment, or sizes that no plan fills.
    """
    # A question about a budget needs no torch.
    from shadowprice.learning.delivery_value import read_values

    account_id, value, allowed = read_values((workspace / MODEL).resolve())
    known = {segment.name for segment in campaign.segments if not segment.gives_nothing}
    for name in (*sizes, *shares):
        if name not in known:
            raise InvalidInput(f"has no segment {name!r}; it has {', '.join(sorted(known))}", field="campaign")
    changed = tuple(
        replace(segment, demand=sizes.get(segment.name, segment.demand), fee=shares.get(segment.name, segment.fee))
        for segment in campaign.segments
    )
    side = side_of(campaign)
    other = replace(campaign, sides={side: replace(campaign.terms(side), segments=changed)})
    curves = Curves(np.arange(len(changed)), value, allowed=allowed)
    nobody = {limit.name: CapUse.of({}, {}) for limit in place_limits(campaign)}
    try:
        current, asked = (plan_places(terms, account_id, curves, nobody, "") for terms in (campaign, other))
    except NotCertified as error:
        raise InvalidInput(str(error), field="sizes") from error

    def total(worth: Any) -> Estimate:
        return mean(worth, cluster=account_id).times(account_id.size)

    change = total(asked.worth - current.worth)
    return {
        "campaign": campaign.name,
        "current": _told(current, total(current.worth), campaign),
        "asked": _told(asked, total(asked.worth), other),
        "change": {"value": change.value, "low": change.low, "high": change.high},
    }


def _told(plan: DeliveryPlan, value: Estimate, campaign: Campaign) -> dict[str, Any]:
    places = places_of(plan.segments, plan.prices, Currency.of(campaign.currency))
    rows = [asdict(place) | {"fee": segment.fee} for place, segment in zip(places, plan.segments, strict=True)]
    return {"value": plan.plan.objective, "low": value.low, "high": value.high, "gap": plan.plan.gap, "places": rows}
