"""Prices of the places of a delivery, in money and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shadowprice.campaign.segments import Segment
from shadowprice.currency import Currency


@dataclass(frozen=True)
class Place:
    """A segment, and the price of one of its places.

    demand   its places
    price    minor units: change of the predicted value of the plan with one more place in the segment and one fewer in
             the segment that it is compared with
    meaning  the same in words
    """

    name: str
    demand: int
    price: float
    meaning: str


def places_of(segments: Sequence[Segment], prices: Mapping[str, float], currency: Currency) -> list[Place]:
    """Return segments with the prices of their places, which ``prices`` has by name; empty without segments.

    Only differences of prices have a meaning: they are less that of the segment which gives nothing, or less the
    cheapest where there is none.
    """
    if not segments:
        return []
    free = next(
        (segment for segment in segments if segment.gives_nothing), min(segments, key=lambda each: prices[each.name])
    )
    places = []
    for segment in segments:
        price = prices[segment.name] - prices[free.name]
        change = f"{'brings' if price >= 0 else 'costs'} {currency.write(abs(price))}"
        # A dual price is the slope between one place fewer and one place more.
        meaning = f"one more place in {segment.name}, and one fewer in {free.name}, {change}"
        if segment is free:
            meaning = "the other places are compared with this one"
        elif not segment.demand:
            meaning = "no place is left; the price keeps accounts out"
        places.append(Place(segment.name, segment.demand, price, meaning))
    return places
