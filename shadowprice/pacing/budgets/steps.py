"""Distance of a price from the newest one, and of the spend from its plan."""

from collections.abc import Mapping

from shadowprice.price import PriceRecord

MAX_STEP = 4.0
"""Largest factor between two prices in a row, whatever a solve finds: one wrong total must not move the price far."""


def within_a_step(price: float, newest: PriceRecord | None, budget: str) -> float:
    """The price, moved to the nearest that is within a factor of :data:`MAX_STEP` of the newest positive one."""
    before = newest.prices.get(budget, 0.0) if newest else 0.0
    return min(max(price, before / MAX_STEP), before * MAX_STEP) if before > 0 else price


def pacing_error(newest: PriceRecord | None, committed: float, at: float | None) -> float:
    """Return the relative distance of ``committed`` minor units from the newest price's plan; 0 without a plan."""
    planned = newest.planned(at) if newest is not None and at is not None else 0.0
    return committed / planned - 1.0 if planned > 0 else 0.0


def pacing_errors(newest: PriceRecord | None, used: Mapping[str, float], at: float | None) -> dict[str, float]:
    """Return :func:`pacing_error` of each further budget, of which ``used`` minor units are used."""
    planned = {name: newest.planned(at, name) if newest and at is not None else 0.0 for name in used}
    return {name: amount / planned[name] - 1.0 if planned[name] > 0 else 0.0 for name, amount in used.items()}
