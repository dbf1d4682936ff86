"""Offers and terms of one side of a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign.fields import check_positive, check_whole
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.limits import MOST_AMOUNT

Side = Literal["customer", "merchant"]
SIDES: tuple[Side, ...] = get_args(Side)

CostBasis = Literal["on_response", "on_grant"]

MOST_RESPONSE = 100.0
"""Largest response of one outcome where the terms name none."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One offer of a guaranteed delivery, such as a fund (S2).

    name        of the offer
    demand      how many accounts exactly are to be given it
    risk_level  the least risk tolerance of an account that may be given it; None: open to all
    """

    name: str
    demand: int
    risk_level: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("must not be empty", field="segment.name")
        check_whole(self.demand, 0, "accounts", "segment.demand")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Incentives and terms of one side of the market.

    levels      incentive values in minor units, ascending; equal ones are different offers of one amount; of a
                delivery the numbers of the segments, 0, 1, …
    cost_basis  ``on_response``: the incentive is paid only on response (g = r·f, m = f);
                ``on_grant``: it is paid for certain (g = r, m = 1). S0 charges both ways:
                eq. 16 the first, eq. 17–20 the second.
    weight      worth of one unit of this side's response in the objective
    most_units  units of response that one answer is paid for at most, of a merchant paid on response; so many
                incentives are held for each of its authorizations, and further units cost nothing
    most_response  largest response that one outcome of this side may report: a budget per response grows with it
    segments    of a guaranteed delivery: what each level is; nothing is paid for it
    offers      identifier of each level's offer; empty: side and incentive, or the names of the segments
    """

    levels: tuple[int, ...]
    cost_basis: CostBasis = "on_response"
    weight: float = 1.0
    most_units: int = 1
    most_response: float = MOST_RESPONSE
    segments: tuple[Segment, ...] = ()
    offers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(int(level) for level in check_levels(self.levels, ordered=False)))
        if self.cost_basis not in get_args(CostBasis):
            raise InvalidInput(f"must be one of {get_args(CostBasis)}, got {self.cost_basis!r}", field="cost_basis")
        check_positive(self.weight, "weight")
        check_positive(self.most_response, "most_response")
        check_whole(self.most_units, 1, "units", "most_units")
        if self.most_units > 1 and (self.cost_basis != "on_response" or self.segments):
            raise InvalidInput("must be 1 where nothing is paid on response", field="most_units")
        if self.most_units * self.levels[-1] > MOST_AMOUNT:
            raise InvalidInput(
                f"times the largest level must not be above {MOST_AMOUNT} minor units", field="most_units"
            )
        if self.segments and self.levels != tuple(range(len(self.segments))):
            raise InvalidInput("must number the segments 0, 1, …", field="levels")
        if len({segment.name for segment in self.segments}) < len(self.segments):
            raise InvalidInput("names must differ", field="segments")
        if self.offers and (self.segments or not all(self.offers) or len(self.offers) != len(self.levels)):
            raise InvalidInput("must name each level, and none of a delivery: its segments have names", field="offers")
        if len(set(self.offers)) < len(self.offers):
            raise InvalidInput("names must differ", field="offers")

    @property
    def incentives(self) -> tuple[int, ...]:
        """Incentive of each level in minor units: 0 in a delivery."""
        return (0,) * len(self.segments) if self.segments else self.levels

    @property
    def reserved(self) -> tuple[int, ...]:
        """Largest cost of an authorization at each level, minor units: the held amount until it is settled."""
        return tuple(self.most_units * incentive for incentive in self.incentives)

    def paid_units(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Incentives paid for measured responses, of their shape: up to ``most_units`` of them, or one for certain."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.minimum(np.asarray(response, dtype=np.float64), self.most_units)

    def value(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): the worth of each level."""
        return self.weight * np.asarray(response, dtype=np.float64)

    def cost(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): expected money paid at each level, in minor units (S0 eq. 16 or 17).

        Of a merchant paid on response an upper bound where more than ``most_units`` can come: a mean does not tell how
        often. The solve then spends less than it may, by what ``spend_ratio`` of the price record has not learned yet.
        """
        paid = np.asarray(self.incentives, dtype=np.float64)[:, None]
        if self.cost_basis == "on_grant":
            return np.broadcast_to(paid, np.shape(response)).copy()
        return paid * np.asarray(response, dtype=np.float64)

    def measure(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): denominator of an average budget, the ``m`` of S0 eq. 17."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.asarray(response, dtype=np.float64)
