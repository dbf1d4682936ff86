"""Fields of a campaign that its JSON may leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from shadowprice.arms import Experiment, Holdout
from shadowprice.campaign.campaign_fields import CampaignFields
from shadowprice.campaign.draws import read_weights
from shadowprice.campaign.fields import real
from shadowprice.campaign.long_term import LongTerm
from shadowprice.campaign.portfolio import PortfolioTerms
from shadowprice.limits import Limits, Rule

NUMBERS = (
    "gap_limit",
    "violation_limit",
    "price_ttl_hours",
    "exploration",
    "alarm_exploration",
    "authorization_ttl_hours",
)
"""Fields that are read as numbers, have a default and are always written."""


def _same(given: Any) -> Any:
    return given


def _written(given: Any) -> dict[str, Any]:
    written: dict[str, Any] = given.to_dict()
    return written


OPTIONS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "expected_requests": (_same, _same),
    "currency": (_same, _same),
    "late_reserve": (_same, _same),
    "experiment": (Experiment.from_dict, _written),
    "holdout": (Holdout.from_dict, asdict),
    "limits": (Limits.from_dict, _written),
    "rules": (lambda rules: tuple(map(Rule.from_dict, rules)), lambda rules: [rule.to_dict() for rule in rules]),
    "objective": (_same, _same),
    "least_return": (lambda given: real(given, "campaign.least_return"), _same),
    "policy": (_same, _same),
    "long_term": (LongTerm.from_dict, _written),
    "portfolio": (PortfolioTerms.from_dict, _written),
    "exploration_weights": (read_weights, lambda given: {side: dict(weights) for side, weights in given.items()}),
}
"""Field that is left out at its default → what reads it, and what writes it, in the order of writing."""


def read_options(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :data:`OPTIONS` that a campaign's JSON gives; null is a default."""
    return {name: read(data[name]) for name, (read, _) in OPTIONS.items() if data.get(name) is not None}


def written_options(campaign: CampaignFields) -> dict[str, Any]:
    """Return the fields of :data:`OPTIONS` that differ from their defaults, in JSON types."""
    given = {name: getattr(campaign, name) for name in OPTIONS}
    return {
        name: write(given[name])
        for name, (_, write) in OPTIONS.items()
        if given[name] and given[name] != getattr(type(campaign), name, None)
    }
