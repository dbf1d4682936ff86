"""Offers and terms of one side of a campaign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from operator import le
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign.fields import check_positive, check_whole
from shadowprice.campaign.percent import Percent, expected_payment
from shadowprice.campaign.segments import NOTHING_GIVEN, Segment, fees
from shadowprice.checks import require, require_one_of
from shadowprice.currency import Currency
from shadowprice.curves import AMOUNT, check_levels
from shadowprice.errors import InvalidInput
from shadowprice.limits import MOST_AMOUNT

Side = Literal["customer", "merchant"]
SIDES: tuple[Side, ...] = get_args(Side)

CostBasis = Literal["on_response", "on_grant"]

MOST_RESPONSE = 100.0
"""Largest response of one outcome where the terms name none."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Incentives and terms of one side of the market.

    levels      incentive values in minor units, ascending; equal ones are different offers of one amount; where
                ``amounts`` are given, and in a delivery, the numbers of the offers, 0, 1, …; of vouchers the amounts
    cost_basis  ``on_response``: the incentive is paid only on response (g = r·f, m = f);
                ``on_grant``: it is paid for certain (g = r, m = 1). S0 charges both ways:
                eq. 16 the first, eq. 17–20 the second.
    weight      worth of one unit of this side's response in the objective; minor units where that is money
    worth       column of the side's accounts, such as ``x_margin``, with the worth of a unit of each one's response,
                which ``weight`` multiplies; ``amount``: the expected amount of a response, of a merchant of a unit of
                it, which the model learns from the amounts of the trial; empty: all are worth the same
    influence   file of the workspace, written by the job ``lift``, with the value for an account's partners of a minor
                unit that the account is given; empty: none is counted
    most_units  units of response that one answer is paid for at most, of a merchant paid on response; so many
                incentives are held for each of its authorizations, and further units cost nothing
    most_response  largest response that one outcome of this side may report: a budget per response grows with it
    segments    of a guaranteed delivery: what each level is; nothing is paid for it
    offers      identifier of each level's offer; empty: side and incentive, or the names of the segments
    ordered     whether a higher level is more of one thing; False: the offers are alternatives, and the lowest level is
                the control
    amounts     incentive of each level in minor units, where offers name the levels: 0 of an offer without a value in
                money
    costs       r where it is not the incentive: units of the budget that each level takes, minor units or offers
    percent     levels in percent of the order's amount, None for another; the amount of such a level is its cap, which
                is held and paid at most
    least_spends  smallest order that each level is for, minor units; 0: any. One in percent has its own
    valid_hours  hours that each level's offer is valid for; 0: as long as the campaign says
    """

    levels: tuple[int, ...]
    cost_basis: CostBasis = "on_response"
    weight: float = 1.0
    worth: str = ""
    influence: str = ""
    most_units: int = 1
    most_response: float = MOST_RESPONSE
    segments: tuple[Segment, ...] = ()
    offers: tuple[str, ...] = ()
    ordered: bool = True
    amounts: tuple[int, ...] = ()
    costs: tuple[int, ...] = ()
    percent: tuple[Percent | None, ...] = ()
    least_spends: tuple[int, ...] = ()
    valid_hours: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(int(level) for level in check_levels(self.levels, ordered=False)))
        require_one_of(self.cost_basis, get_args(CostBasis), "cost_basis")
        check_positive(self.weight, "weight")
        column = f"must be {AMOUNT}, or a column of numbers of the accounts, x_…, got {self.worth!r}"
        require(re.fullmatch(rf"(x_\w+|{AMOUNT})?", str(self.worth)), "worth", column)
        file = f"must be the name of a .parquet file in the workspace, got {self.influence!r}"
        require(re.fullmatch(r"([\w-]+\.parquet)?", str(self.influence)), "influence", file)
        money = not (self.segments or any(self.percent))
        require(money or not self.influence, "influence", "needs levels that are amounts of money; leave it out")
        check_positive(self.most_response, "most_response")
        check_whole(self.most_units, 1, "units", "most_units")
        several = self.cost_basis == "on_response" and not self.segments
        require(several or not self.most_units > 1, "most_units", "must be 1 where nothing is paid on response")
        for name in ("amounts", "costs", "least_spends", "valid_hours"):
            self._check_amounts(name)
        above = f"times the largest cost must not be above {MOST_AMOUNT} minor units"
        require(max(self.reserved) <= MOST_AMOUNT, "most_units", above)
        numbered = self.levels in (tuple(range(len(self.amounts))), self.amounts) and self.offers
        needed = "need offers that name the levels, and levels 0, 1, … or equal to the amounts"
        require(numbered or not self.amounts, "amounts", needed)
        require(isinstance(self.ordered, bool), "ordered", f"must be true or false, got {self.ordered!r}")
        worthless = "are needed where levels have no order; 0 for an offer without one"
        require(self.ordered or self.amounts, "amounts", worthless)
        if any(self.percent):
            self._check_percent()
        count = len(self.segments)
        require(not count or self.levels == tuple(range(count)), "levels", "must number the segments 0, 1, …")
        require(len({segment.name for segment in self.segments}) == count, "segments", "names must differ")
        last = not any(segment.gives_nothing for segment in self.segments[: max(1, count - 1)])
        require(last, "segments", f"{NOTHING_GIVEN!r} must come after the offers of a delivery")
        named = not self.segments and all(self.offers) and len(self.offers) == len(self.levels)
        none = "must name each level, and none of a delivery: its segments have names"
        require(named or not self.offers, "offers", none)
        require(len(set(self.offers)) == len(self.offers), "offers", "names must differ")

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

    def _check_amounts(self, name: str) -> None:
        listed = getattr(self, name)
        if listed and (self.segments or len(listed) != len(self.levels)):
            raise InvalidInput("must have one entry per level, and none in a delivery", field=name)
        for amount in listed:
            check_whole(amount, 0, "hours" if name == "valid_hours" else "minor units", name)

    def _check_percent(self) -> None:
        if len(self.percent) != len(self.levels) or not self.amounts or self.levels != tuple(range(len(self.amounts))):
            raise InvalidInput(
                "must have one entry per level, of levels 0, 1, … with offers and amounts: that of a percentage is its "
                "cap",
                field="percent",
            )
        if self.cost_basis != "on_response" or self.most_units > 1:
            raise InvalidInput("must be paid on response, for one unit: it is a part of an order", field="percent")
        shares = [(share, cap) for share, cap in zip(self.percent, self.amounts, strict=True) if share is not None]
        if any(cap < 1 for _, cap in shares):
            raise InvalidInput("of a level in percent must be its cap, at least 1 minor unit", field="amounts")
        if any(share and least for share, least in zip(self.percent, self.least_spends, strict=False)):
            raise InvalidInput("of a level in percent stands in percent; leave 0 here", field="least_spends")
        own = zip(self.percent, self.costs, self.amounts, strict=False)
        if any(share and cost != cap for share, cost, cap in own):
            raise InvalidInput("of a level in percent must be its cap", field="costs")
        rises = [(share.share, cap, -share.least) for share, cap in shares]
        paid = [amount for share, amount in zip(self.percent, self.amounts, strict=True) if share is None and amount]
        if self.ordered and (paid or any(not all(map(le, *step)) for step in pairwise(rises))):
            raise InvalidInput(
                "must rise with the level, as must its cap, and its least spend must not; set ordered to false where "
                "offers are alternatives",
                field="percent",
            )

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
