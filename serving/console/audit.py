"""Levels of one request at the price of its decision: the curve, and the score of each level."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.console.why import Choice, why
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.policy import Choices
from shadowprice.price import PriceRecord


def level_rows(
    campaign: Campaign,
    decision: Mapping[str, Any],
    curve: NDArray[np.float64],
    price: PriceRecord,
    worth: NDArray[np.float64] | None = None,
    amounts: NDArray[np.floating[Any]] | None = None,
    guards: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
    influence: NDArray[np.float64] | None = None,
) -> list[dict[str, float]]:
    """Return one row for each level: response, expected cost, score (value less prices times cost), propensity.

    Args:
        campaign: with the terms of the decision; fewer levels than the curve has leave no row.
        decision: as the log has it.
        curve: (J,), responses of the account at each level.
        price: that the request was decided with.
        worth: (1,) or (J, 1), of a unit of the account's response, where its side has one.
        amounts: (2, J, 1), of the account's orders, where levels are in percent.
        guards: name → (J,), second outcomes, where they are limited.
        influence: (1,), value for the account's partners of a minor unit, where the campaign counts it.
    """
    side = decision["side"]
    terms = campaign.sides.get(side)
    if terms is None or len(terms.levels) != curve.size:
        return []
    response = curve[:, None]
    bits = campaign.coverage().recorded(side, str(decision["groups"] or ""), decision["partner_id"])
    own = Choices.of(campaign, side, response, bits, worth=worth, amounts=amounts, guards=guards)
    choices = own.counting(campaign, side, influence)
    score = choices.scores(price.of(campaign.priced))[:, 0]
    shares = [*decision["propensities"], *[0.0] * curve.size]
    columns = zip(curve, terms.cost(response, amounts)[:, 0], score, shares, strict=False)
    return [
        {"response": expected, "cost": cost, "score": worth, "propensity": share}
        for expected, cost, worth, share in columns
    ]


def worth_at(worth: NDArray[np.float64] | None, level: int) -> float:
    """Worth of a unit of the response at a level, from what :func:`level_rows` takes; 1 where there is none."""
    return 1.0 if worth is None else float(worth.flat[min(max(level, 0), worth.size - 1)])


def why_of(
    campaign: Campaign,
    decision: Mapping[str, Any],
    levels: Sequence[Mapping[str, float]],
    price: PriceRecord | None,
    currency: Currency,
    worth: NDArray[np.float64] | None = None,
) -> str:
    """Say in one sentence why a request got its level; ``levels`` and ``worth`` are those of :func:`level_rows`."""
    side = decision["side"]
    terms = campaign.sides.get(side)
    names = () if terms is None else terms.names(currency)
    choices = [Choice(name, level["response"], level["cost"]) for name, level in zip(names, levels, strict=False)]
    weight = (1.0 if terms is None else terms.weight) * worth_at(worth, decision["level"])
    scarcity = price.prices[campaign.priced[0]] / weight if price is not None and weight > 0 else 0.0
    control = terms is not None and bool(terms.amounts) and terms.control
    return why(
        choices, decision["level"], scarcity, decision["reason"], currency, ratio=side == "merchant", control=control
    )
