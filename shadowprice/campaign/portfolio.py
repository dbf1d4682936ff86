"""Terms on which money of a campaign may be moved to and from others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from shadowprice.campaign.fields import check_positive, check_whole, real
from shadowprice.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class PortfolioTerms:
    """Bounds on moves of unspent budget between the campaigns of one portfolio; the ledger enforces them.

    name           of the portfolio: money moves only between campaigns that have the same
    floor, cap     least and largest total that moves may leave the campaign, minor units
    largest_move   most minor units of one move, and of all that it receives in one run of the job
    hours_between  least time between two moves that it gives
    weight         worth of one unit of its value; campaigns of one portfolio add up their values times this
    curve_error    relative standard error of its price of money that comes from the curves, not from the sample

    Example:
        >>> PortfolioTerms(name="company", floor=100, cap=900, largest_move=50).hours_between
        1.0
    """

    name: str
    floor: int = 0
    cap: int
    largest_move: int
    hours_between: float = 1.0
    weight: float = 1.0
    curve_error: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput("must be a text that is not empty", field="portfolio.name")
        check_whole(self.floor, 0, "minor units", "portfolio.floor")
        check_whole(self.cap, 0, "minor units", "portfolio.cap")
        check_whole(self.largest_move, 1, "minor units", "portfolio.largest_move")
        if self.floor > self.cap:
            raise InvalidInput(f"must not be above the cap, {self.cap}", field="portfolio.floor")
        for name in ("hours_between", "weight"):
            check_positive(getattr(self, name), f"portfolio.{name}")
        if not 0 <= self.curve_error < 1:
            raise InvalidInput("must lie in [0, 1)", field="portfolio.curve_error")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PortfolioTerms:
        """Build the terms from what :meth:`to_dict` gave, checking every field."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise InvalidInput(f"must have fields of {sorted(known)}, got {unknown[0]!r}", field="portfolio")
        if missing := [name for name in ("name", "cap", "largest_move") if name not in data]:
            raise InvalidInput("is missing", field=f"portfolio.{missing[0]}")
        numbers = ("hours_between", "weight", "curve_error")
        reals: dict[str, Any] = {name: real(data[name], f"portfolio.{name}") for name in numbers if name in data}
        return cls(**{**data, **reals})
