"""Questions about a delivery: the plan's predicted value and the prices of places with other sizes and fees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operations.common.workspace import MODEL, POPULATION, read_campaign
from shadowprice.campaign import Campaign, Segment, place_limits, places_of
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified, NotFound
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import mean
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.places import DeliveryPlan, plan_places, side_of
from shadowprice.pacing.population import read_population
from shadowprice.pacing.spend import CapUse
from shadowprice.responses.layers.heads import load_heads

SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Sizes of the curve, as shares of the campaign's own."""


@dataclass(frozen=True, eq=False)
class PlaceQuestion:
    """A delivery that can be asked about.

    The segment ``none`` takes the accounts beyond the sizes. Intervals say how much the value changes with other
    accounts like these; the error of the model is not in them.

    account_id  N accounts of the model in use; curves, their predicted value of each segment, and what they may enter
    """

    campaign: Campaign
    account_id: NDArray[np.str_]
    curves: Curves

    @classmethod
    def open(cls, workspace: Path) -> PlaceQuestion:
        """Open the population of a workspace; no torch is needed.

        Raises:
            NotFound: the model has no stored population.
        """
        campaign, model = read_campaign(workspace), (workspace / MODEL).resolve()
        version = str(read_meta(model)["model_version"])
        accounts = read_population(workspace / POPULATION / version, load_heads(model)).get(side_of(campaign))
        if accounts is None:
            raise NotFound(f"{POPULATION}/{version} holds no account of the delivery; register the model again")
        return cls(campaign, accounts.account_id.to_numpy().astype(str), accounts.curves)

    @cached_property
    def current(self) -> DeliveryPlan:
        """The plan of the whole delivery as it is."""
        return self._plan(self.campaign.segments)

    def ask(self, sizes: Mapping[str, int] = {}, shares: Mapping[str, float] = {}) -> dict[str, Any]:
        """Return the plan as it is and with other sizes and fees, by segment.

        Returns:
            In JSON types: ``current`` and ``asked``, each with ``value`` (predicted, minor units), ``low`` and ``high``
            of its interval, ``gap`` and ``places``; ``change``, the difference of the two values with its interval.

        Raises:
            InvalidInput: there is no such segment, or sizes that no plan fills.
        """
        known = {segment.name for segment in self.campaign.segments if not segment.gives_nothing}
        for name in (*sizes, *shares):
            if name not in known:
                raise InvalidInput(f"has no segment {name!r}; it has {', '.join(sorted(known))}", field="campaign")
        changed = tuple(
            replace(segment, demand=sizes.get(segment.name, segment.demand), fee=shares.get(segment.name, segment.fee))
            for segment in self.campaign.segments
        )
        asked = self._plan(changed)
        change = _total(asked.worth - self.current.worth)
        return {
            "campaign": self.campaign.name,
            "current": self._told(self.current),
            "asked": self._told(asked),
            "change": {"value": change.value, "low": change.low, "high": change.high},
        }

    def curve(self) -> list[tuple[int, Estimate]]:
        """Return the places and the predicted value of the plan at shares of all sizes; those without a plan are out.

        O(J · accounts) for each share.
        """
        points = []
        for share in SHARES:
            sizes = [0 if entry.gives_nothing else round(share * entry.demand) for entry in self.campaign.segments]
            scaled = [replace(entry, demand=n) for entry, n in zip(self.campaign.segments, sizes, strict=True)]
            try:
                plan = self.current if share == 1 else self._plan(scaled)
            except InvalidInput:
                continue
            points.append((sum(sizes), _total(plan.worth)))
        return points

    def _plan(self, segments: tuple[Segment, ...] | list[Segment]) -> DeliveryPlan:
        side = side_of(self.campaign)
        terms = replace(self.campaign.terms(side), segments=tuple(segments))
        nobody = {limit.name: CapUse.of({}, {}) for limit in place_limits(self.campaign)}
        campaign = replace(self.campaign, sides={side: terms})
        places = sum(segment.demand for segment in segments if not segment.gives_nothing)
        if places > self.account_id.size:
            raise InvalidInput(f"are {places:,} places for {self.account_id.size:,} accounts", field="sizes")
        try:
            return plan_places(campaign, self.account_id, self.curves, nobody, "")
        except NotCertified as error:
            raise InvalidInput(str(error), field="sizes") from error

    def _told(self, plan: DeliveryPlan) -> dict[str, Any]:
        total = _total(plan.worth)
        places = places_of(plan.segments, plan.prices, Currency.of(self.campaign.currency))
        rows = [asdict(place) | {"fee": segment.fee} for place, segment in zip(places, plan.segments, strict=True)]
        bounds = {"low": total.low, "high": total.high}
        return {"value": plan.plan.objective, **bounds, "gap": plan.plan.gap, "places": rows}


def _total(worth: NDArray[np.float64]) -> Estimate:
    """Sum over accounts with the interval of a total; each account is one row."""
    return mean(worth).times(worth.size)
