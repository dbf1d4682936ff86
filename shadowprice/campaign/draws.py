"""Weights of the levels where a request explores."""

import math
from collections.abc import Mapping
from typing import Any

from shadowprice.campaign.fields import real
from shadowprice.campaign.terms_fields import Side
from shadowprice.errors import InvalidInput

FIELD = "exploration_weights"
"""Field of a campaign."""


def read_weights(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return side → offer → weight, with a number for each; :func:`check_weights` checks the names."""
    return {
        side: {offer: real(weight, f"campaign.{FIELD}.{side}.{offer}") for offer, weight in of_side.items()}
        for side, of_side in given.items()
    }


def check_weights(given: Mapping[Side, Mapping[str, float]], offers: Mapping[Side, tuple[str, ...]]) -> None:
    """Raise :class:`InvalidInput` unless each side named gives each of its offers a positive weight.

    Example:
        >>> check_weights({"customer": {"none": 1.0, "ten": 3.0}}, {"customer": ("none", "ten")})
    """
    for side, weights in given.items():
        field = f"campaign.{FIELD}.{side}"
        if side not in offers:
            raise InvalidInput(f"is no side of the campaign; it has {sorted(offers)}", field=field)
        if (unknown := sorted(set(weights) - set(offers[side]))) or len(weights) < len(offers[side]):
            missing = [offer for offer in offers[side] if offer not in weights]
            raise InvalidInput(
                f"must give each offer a weight: {', '.join(offers[side])}; without one: {missing}, unknown: {unknown}",
                field=field,
            )
        for offer, weight in weights.items():
            if not (math.isfinite(weight) and weight > 0):
                raise InvalidInput(
                    "must be a positive number, so that the level keeps being tried", field=f"{field}.{offer}"
                )
