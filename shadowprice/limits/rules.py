"""Rules of eligibility: which offers an account may not be given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shadowprice.errors import InvalidInput
from shadowprice.limits.conditions import Condition

RULE_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule that forbids offers.

    name        of the rule, for messages
    expression  true where the offers are forbidden; :class:`~shadowprice.limits.conditions.Condition` has what it reads
    offers      identifiers of the offers that it forbids; empty: all, or those that the expression is true of
    side        only requests of this side; None: of both

    Raises:
        InvalidInput: names the rule, and the position in its expression.
    """

    name: str
    expression: str
    offers: tuple[str, ...] = ()
    side: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(RULE_NAME, self.name):
            raise InvalidInput(
                f"must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit, got {self.name!r}",
                field="rules.name",
            )
        offers: Any = self.offers
        if isinstance(offers, str) or not all(isinstance(offer, str) and offer for offer in offers):
            raise InvalidInput("must be a list of identifiers of offers", field=f"rules.{self.name}.offers")
        object.__setattr__(self, "offers", tuple(self.offers))
        _ = self.condition

    @cached_property
    def condition(self) -> Condition:
        """The expression, checked."""
        return Condition(self.expression, f"rules.{self.name}.expression", of_offer=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; fields with their defaults are left out."""
        content = {"name": self.name, "expression": self.expression}
        return (
            content
            | ({"offers": list(self.offers)} if self.offers else {})
            | ({"side": self.side} if self.side else {})
        )

    @classmethod
    def from_dict(cls, data: Any) -> Rule:
        """Build a rule from what :meth:`to_dict` gave, or raise :class:`InvalidInput`."""
        known = {"name", "expression", "offers", "side"}
        if not isinstance(data, Mapping) or not {"name", "expression"} <= set(data) <= known:
            raise InvalidInput(
                f"must be an object with name, expression, and perhaps offers and side, got {data!r}", field="rules"
            )
        return cls(**data)


def check_rules(rules: tuple[Rule, ...], offers: Mapping[Any, tuple[str, ...]]) -> None:
    """Make sure that the rules fit a campaign with these offers, by side.

    Raises:
        InvalidInput: two rules of one name, or a side or an offer that the campaign does not have.
    """
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise InvalidInput("names of rules must differ", field="rules.name")
    for rule in rules:
        if rule.side is not None and rule.side not in offers:
            raise InvalidInput(f"must be one of {sorted(offers)}, got {rule.side!r}", field=f"rules.{rule.name}.side")
        known = {offer for side, own in offers.items() if rule.side in (None, side) for offer in own}
        if unknown := sorted(set(rule.offers) - known):
            raise InvalidInput(
                f"there is no offer {unknown[0]!r}; there are {sorted(known)}", field=f"rules.{rule.name}.offers"
            )
