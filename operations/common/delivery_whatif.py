"""Questions about a delivery: the plan's predicted value and the prices of places with other sizes and fees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from operations.common.workspace import MODEL
from shadowprice.allocation import solve_demands
from shadowprice.campaign import Campaign, Segment, demands, fees, may_enter, places_left, places_of
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput


def ask_delivery(workspace: Path, campaign: Campaign, sizes: Mapping[str, int], shares: Mapping[str, float]) -> Any:
    """Return the plan as it is and with other sizes and fees, by the values of the model in use.

    The segment ``none`` takes the accounts beyond the sizes.

    Returns:
        In JSON types: ``current`` and ``asked``, each with ``value`` (predicted, minor units), ``gap`` and ``places``.

    Raises:
        InvalidInput: there is no such segment, or sizes that no plan fills.
    """
    # A question about a budget needs no torch.
    from shadowprice.learning.delivery_value import read_values

    _, value, tolerance = read_values((workspace / MODEL).resolve())
    known = {segment.name for segment in campaign.segments if not segment.gives_nothing}
    for name in (*sizes, *shares):
        if name not in known:
            raise InvalidInput(f"has no segment {name!r}; it has {', '.join(sorted(known))}", field="campaign")
    changed = [
        replace(segment, demand=sizes.get(segment.name, segment.demand), fee=shares.get(segment.name, segment.fee))
        for segment in campaign.segments
    ]
    currency = Currency.of(campaign.currency)
    return {
        "campaign": campaign.name,
        "current": _plan(value, tolerance, campaign.segments, currency),
        "asked": _plan(value, tolerance, changed, currency),
    }


def _plan(value: Any, tolerance: Any, segments: Sequence[Segment], currency: Currency) -> dict[str, Any]:
    count = value.shape[1]
    left = places_left(segments, np.zeros(len(segments), dtype=np.int64), count)
    worth = np.zeros((len(left), count), dtype=np.float32)
    paid = sum(not entry.gives_nothing for entry in segments)
    worth[:paid] = fees(segments)[:paid, None] * value[:paid]
    plan = solve_demands(worth, demands(left), may_enter(left, tolerance))
    names = [demanded.name for demanded in left]
    if plan.shortage is not None:
        raise InvalidInput(plan.shortage.named(names), field="sizes")
    places = places_of(left, dict(zip(names, plan.prices.tolist(), strict=True)), currency)
    rows = [asdict(place) | {"fee": segment.fee} for place, segment in zip(places, left, strict=True)]
    return {"value": plan.objective, "gap": plan.gap, "places": rows}
