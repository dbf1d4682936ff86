"""Wanted precision, prior beliefs and the plan of a trial."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.arms import Arm, Experiment
from shadowprice.checks import require
from shadowprice.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Wanted half-widths of intervals; None: not wanted.

    lift   of the incremental response per assigned account, policy against holdout
    curve  of the mean response at each level
    price  of the price of money, as a share of it
    """

    lift: float | None = None
    curve: float | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InvalidInput(f"must be a positive number, got {value!r}", field=f"precision.{name}")
        require(any(asdict(self).values()), "precision", "name at least one of lift, curve and price")


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Beliefs about the responses before the trial, from a pilot or an earlier campaign.

    response              (J,), mean response of a request at each level
    money                 minor units per request that the policy may spend
    requests_per_account  of an assigned account in the time of the trial; one that does not ask has none
    correlation           of the responses of two requests of one account at one level, in [0, 1)
    variance              (J,), of one response; that of a probability when None
    requests_variance     of the requests of an account; None: 0 for one request each, else that of a Poisson number
    """

    response: ArrayLike
    money: float
    requests_per_account: float = 1.0
    correlation: float = 0.0
    variance: ArrayLike | None = field(default=None)
    requests_variance: float | None = None


@dataclass(frozen=True, kw_only=True)
class ExperimentPlan:
    """Plan of a trial with a holdout, a policy and an exploring arm.

    levels          that the exploring arm draws from: minor units, or numbers of offers
    shares          arm → basis points of the accounts
    accounts        arm → number
    money           arm → expected minor units
    half_widths     name of :class:`Precision` → half-width that the shares give
    price           of a minor unit at the budget, in value, by the prior
    exploration_cost, holdout_cost   value that the arm gives up, its saved money counted at the price
    effects, power  power curve of the lift: incremental response per account and probability of finding it
    detectable      incremental response per account that is found with a power of 80 %
    """

    levels: tuple[int, ...]
    shares: dict[str, int]
    accounts: dict[str, int]
    money: dict[str, float]
    half_widths: dict[str, float]
    price: float
    exploration_cost: float
    holdout_cost: float
    effects: tuple[float, ...]
    power: tuple[float, ...]
    detectable: float

    def experiment(self, salt: str) -> Experiment:
        """Return the arms of the plan; an arm without a share is left out."""
        kinds: tuple[Any, ...] = ("holdout", "policy", "explore")
        arms = tuple(Arm(name=kind, kind=kind, share=self.shares[kind]) for kind in kinds if self.shares[kind])
        return Experiment(arms=arms, salt=salt)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)
