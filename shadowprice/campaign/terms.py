"""Offers and terms of one side of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign.percent import Percent, expected_payment
from shadowprice.campaign.segments import Segment, fees
from shadowprice.campaign.terms_fields import MOST_RESPONSE, TermsFields
from shadowprice.campaign.terms_validity import check_terms
from shadowprice.currency import Currency
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Terms(TermsFields):
    """Terms of one side: its fields, checked, with the names, cost and value of its levels, and JSON."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(int(level) for level in check_levels(self.levels, ordered=False)))
        check_terms(self)

    @property
    def control(self) -> bool:
        """Return whether the lowest level is a control. Vouchers, whose levels are their discounts, have none."""
        return not self.amounts or self.levels != self.amounts or not self.levels[0]

    @property
    def incentives(self) -> tuple[int, ...]:
        """Incentive of each level in minor units: 0 in a delivery, and of an offer without a value in money.

        That of a level in percent is its cap.
        """
        return (0,) * len(self.segments) if self.segments else self.amounts or self.levels

    @property
    def unit_costs(self) -> tuple[int, ...]:
        """Cost r of one incentive of each level: the incentive, where the offer has no other cost."""
        return self.costs or self.incentives

    @property
    def reserved(self) -> tuple[int, ...]:
        """Largest cost of an authorization at each level, minor units: the held amount until it is settled."""
        return tuple(self.most_units * cost for cost in self.unit_costs)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, without what is left at its default; :meth:`from_dict` is the inverse."""
        content: dict[str, Any] = {"levels": list(self.levels), "cost_basis": self.cost_basis, "weight": self.weight}
        more: dict[str, Any] = {
            "worth": self.worth or None,
            "influence": self.influence or None,
            "most_units": self.most_units if self.most_units > 1 else None,
            "most_response": self.most_response if self.most_response != MOST_RESPONSE else None,
            "segments": [asdict(segment) for segment in self.segments],
            "offers": list(self.offers),
            "ordered": None if self.ordered else False,
            "amounts": list(self.amounts),
            "costs": list(self.costs),
            "percent": [None if share is None else asdict(share) for share in self.percent],
            "least_spends": list(self.least_spends),
            "valid_hours": list(self.valid_hours),
        }
        return content | {name: value for name, value in more.items() if value not in (None, [])}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Terms:
        """Build terms from what :meth:`to_dict` gave, checking every field."""
        optional = {
            name: data[name] for name in ("weight", "worth", "influence", "most_units", "ordered") if name in data
        }
        lists = ("amounts", "costs", "least_spends", "valid_hours")
        optional |= {name: tuple(data[name]) for name in lists if name in data}
        if "percent" in data:
            optional["percent"] = tuple(None if share is None else Percent(**share) for share in data["percent"])
        return cls(
            levels=tuple(data["levels"]),
            cost_basis=data["cost_basis"],
            most_response=float(data.get("most_response", MOST_RESPONSE)),
            segments=tuple(Segment(**segment_fields) for segment_fields in data.get("segments", [])),
            offers=tuple(map(str, data.get("offers", []))),
            **optional,
        )

    def conditions(self, currency: Currency) -> tuple[str, ...]:
        """Least spend and validity of each level, as a person reads them; empty where it has neither.

        >>> Terms(levels=(0, 500), least_spends=(0, 3000), valid_hours=(0, 168)).conditions(Currency())
        ('', 'from $30.00, 7 days')
        """
        none = (0,) * len(self.levels)
        terms = zip(self.least_spends or none, self.valid_hours or none, strict=True)
        return tuple(
            ", ".join(filter(None, (f"from {currency.write(least)}" if least else "", _duration(hours))))
            for least, hours in terms
        )

    def names(self, currency: Currency) -> tuple[str, ...]:
        """Name of each level, as a person reads it: its offer where levels are numbers of offers, else its amount.

        A level in percent is named by its share, cap and least spend; by its offer too where two have the same. Where
        the terms of offers are known, they stand beside the name.
        """
        numbered = tuple(segment.name for segment in self.segments) or (self.offers if self.amounts else ())
        conditions = self.conditions(currency)
        if not any(self.percent):
            amounts = map(currency.write, self.incentives)
            if not numbered:
                return tuple(_beside(*own) for own in zip(amounts, conditions, strict=True))
            own = zip(numbered, amounts, conditions, strict=True)
            return tuple(f"{name} ({_beside(amount, terms)})" if terms else name for name, amount, terms in own)
        terms = zip(self.percent, self.amounts, numbered, conditions, strict=True)
        names = [
            (f"{offer} ({more})" if more else offer) if share is None else _beside(share.name(cap, currency), more)
            for share, cap, offer, more in terms
        ]
        alike = {name for name in names if names.count(name) > 1}
        return tuple(
            f"{name} ({offer})" if name in alike else name for name, offer in zip(names, numbered, strict=True)
        )

    def paid_units(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Incentives paid for measured responses, of their shape: up to ``most_units`` of them, or one for certain."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.minimum(np.asarray(response, dtype=np.float64), self.most_units)

    def paid(
        self, level: NDArray[np.integer[Any]], response: NDArray[np.floating[Any]], paid: ArrayLike | None
    ) -> NDArray[np.float64]:
        """(n,): minor units paid for measured responses at these levels.

        ``paid`` (n,) is what was paid as the log has it, which counts where a level is in percent.

        Raises:
            InvalidInput: a level is in percent, and the log does not have what was paid.
        """
        cost = np.asarray(np.asarray(self.unit_costs, dtype=np.float64)[level] * self.paid_units(response))
        part = np.array([share is not None for share in self.percent or (None,) * len(self.levels)])[level]
        if not part.any():
            return cost
        if paid is None:
            raise InvalidInput("is missing: what was paid for an incentive in percent", field="cost_paid")
        return np.where(part, np.asarray(paid, dtype=np.float64), cost)

    def value(
        self,
        response: NDArray[np.floating[Any]],
        worth: NDArray[np.float64] | None = None,
        influence: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """(J, N): the worth of each level.

        ``worth``, (N,) or (J, N), is that of a unit of each account's response (:meth:`Coverage.worth`), which terms
        with a worth need; None: 1 for all. ``influence`` (N,) is the value for partners of a minor unit that each
        account is given (:meth:`Coverage.influence`); None: 0, for the value of the accounts' own responses.
        """
        if worth is None and self.worth:
            raise InvalidInput("is not known of these accounts", field=self.worth)
        value = self.weight * np.asarray(response, dtype=np.float64)
        if self.segments:
            value *= fees(self.segments)[:, None]
        value = value if worth is None else value * worth
        return value if influence is None else value + self.for_partners(influence)

    def for_partners(self, influence: NDArray[np.float64]) -> NDArray[np.float64]:
        """(J, N): value of each level for the partners of accounts, of a minor unit (N,)."""
        return np.asarray(self.incentives)[:, None] * influence

    def expected_unit_costs(self, amounts: NDArray[np.floating[Any]] | None = None) -> NDArray[np.float64]:
        """(J, 1), or (J, N) where it differs by account: expected cost of one incentive that is paid, minor units.

        Args:
            amounts: (2, N) or (2, J, N), mean and deviation of the log amount (:class:`Curves`), which a level in
                percent needs.

        Raises:
            InvalidInput: levels are in percent, and the amounts are not known.
        """
        paid = np.asarray(self.unit_costs, dtype=np.float64)[:, None]
        if not any(self.percent):
            return paid
        if amounts is None:
            raise InvalidInput(
                "of orders is not known: an incentive in percent needs outcomes with amounts and a model trained on "
                "them",
                field="amount",
            )
        mean, deviation = amounts
        if mean.size and all((each == each[..., :1]).all() for each in amounts):
            # All accounts of a side share one distribution where no model has learned more.
            mean, deviation = mean[..., :1], deviation[..., :1]
        paid = np.repeat(paid, mean.shape[-1], axis=1)
        for level, (share, cap) in enumerate(zip(self.percent, self.amounts, strict=True)):
            if share is not None:
                own = (each[level] if each.ndim == 2 else each for each in (mean, deviation))
                paid[level] = expected_payment(share.share / 100, cap, share.least, *own)
        return paid

    def cost(
        self, response: NDArray[np.floating[Any]], amounts: NDArray[np.floating[Any]] | None = None
    ) -> NDArray[np.float64]:
        """(J, N): expected money paid at each level, in minor units (S0 eq. 16 or 17).

        ``amounts`` and errors are those of :meth:`expected_unit_costs`. Of a merchant paid on response an upper bound
        where more than ``most_units`` can come: a mean does not tell how often. The solve then spends less than it may,
        by what ``spend_ratio`` of the price record has not learned yet.
        """
        return self.expected_unit_costs(amounts) * self.measure(response)

    def measure(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): denominator of an average budget, the ``m`` of S0 eq. 17."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.asarray(response, dtype=np.float64)


def _beside(amount: str, conditions: str) -> str:
    """Return an amount with its conditions."""
    return f"{amount}{' ' if conditions.startswith('from') else ', '}{conditions}" if conditions else amount


def _duration(hours: int) -> str:
    """Return a time as a person reads it; empty for 0."""
    count, unit = (hours // 24, "day") if hours % 24 == 0 else (hours, "hour")
    return f"{count} {unit}{'s' if count != 1 else ''}" if hours else ""
