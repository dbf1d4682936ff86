"""Plan of a trial: levels, shares, accounts and money that give the wanted precision."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.arms import WHOLE, Arm, Experiment
from shadowprice.campaign import Side, Terms
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.uniform import best_flat, flat_frontier
from shadowprice.evaluation.statistics.metric import Array, as_rows

POWER = 0.8
EFFECTS = np.linspace(0.25, 2.0, 8)
"""Effects of the power curve, in multiples of the effect that is found with a power of 80 %."""
SIDE: Side = "customer"


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


def plan(
    terms: Terms,
    accounts: int,
    prior: Prior,
    wanted: Precision,
    *,
    level: float = 0.95,
    weights: ArrayLike | None = None,
) -> ExperimentPlan:
    """Plan the trial of the least cost that gives the wanted precision.

    Args:
        terms: levels, cost basis and weight of the side.
        accounts: that are assigned, in all arms together, whether they ask or not.
        prior: beliefs about the responses.
        wanted: half-widths of the intervals.
        level: of the intervals.
        weights: (J,), of the levels where one is drawn (:meth:`~shadowprice.campaign.Campaign.draw_weights`); None: 1
            for all.

    The exploring arm gets as many accounts as curve and price need, the holdout the fewest with which the lift reaches
    its half-width, and the policy the rest. A level's mean of n requests, m of each account, has the variance
    V·(1 + (m − 1)ρ)/n. The sum of an account with R requests of mean μ has the variance E[R]·V + E[R(R − 1)]·ρV +
    Var[R]·μ². The price is λ = Δvalue/Δcost between the two levels that the best flat mixture within the
    money lies between, the last two where money is left over; its variance is that of the delta method. That mixture
    stands for the policy; a personal policy brings more. Where all levels need too many accounts, those that
    no flat mixture uses are left out.

    The variance of a believed probability is at least that of a rate of h/z, with the narrower half-width h of lift and
    curve and the quantile z. A belief of 0 would otherwise need no account, and its trial could not contradict it.

    Raises:
        InvalidInput: beliefs that cannot be, or a precision that so many accounts cannot give; the message names the
            half-width that they can.

    Example:
        >>> prior = Prior(response=[0.10, 0.14, 0.16], money=6.0)
        >>> found = plan(Terms(levels=(0, 50, 100)), 200_000, prior, Precision(lift=0.005, curve=0.02))
        >>> found.shares
        {'holdout': 768, 'policy': 9038, 'explore': 194}
    """
    if isinstance(accounts, bool) or not isinstance(accounts, int) or accounts < 2:
        raise InvalidInput(f"must be a whole number of at least 2, got {accounts!r}", field="accounts")
    require(0 < level < 1, "level", "must lie between 0 and 1")
    z = float(special.ndtri((1 + level) / 2))
    lift = None if wanted.lift is None else wanted.lift / max(prior.requests_per_account, 1e-300)
    narrow = min((width for width in (lift, wanted.curve) if width is not None), default=z / accounts)
    design = _Design(terms, prior, z, least=min(narrow / z, 0.25))
    if weights is not None:
        design.weights = as_rows({"weights": weights})["weights"]
    problem: InvalidInput | None = None
    for tried in dict.fromkeys([tuple(range(len(terms.levels))), design.useful]):
        try:
            return _planned(design, accounts, wanted, np.array(tried))
        except InvalidInput as error:
            problem = error
    assert problem is not None
    raise problem


class _Design:
    """Value, cost and variance of each level, and the flat mixture that the money buys.

    ``least`` is the least variance of a probability.
    """

    def __init__(self, terms: Terms, prior: Prior, z: float, least: float) -> None:
        self.terms, self.z = terms, z
        self.response = as_rows({"prior.response": prior.response})["prior.response"]
        if self.response.shape != (len(terms.levels),):
            raise InvalidInput(f"must have one entry per level, {len(terms.levels)}", field="prior.response")
        if prior.variance is None:
            if not ((self.response >= 0) & (self.response <= 1)).all():
                raise InvalidInput("must lie in [0, 1], or name their variance", field="prior.response")
            self.variance = np.maximum(self.response * (1 - self.response), least)
        else:
            self.variance = as_rows({"prior.variance": prior.variance})["prior.variance"]
            if self.variance.shape != self.response.shape or not (self.variance > 0).all():
                raise InvalidInput("must have one positive entry per level", field="prior.variance")
        require(0 <= prior.correlation < 1, "prior.correlation", "must lie in [0, 1)")
        if not (np.isfinite(prior.requests_per_account) and prior.requests_per_account > 0):
            raise InvalidInput("must be a positive number", field="prior.requests_per_account")
        self.requests, self.correlation = float(prior.requests_per_account), prior.correlation
        self.visits = prior.requests_variance
        if self.visits is None:
            self.visits = 0.0 if self.requests == 1 else self.requests
        if not (np.isfinite(self.visits) and self.visits >= 0):
            raise InvalidInput("must be a number that is not negative", field="prior.requests_variance")
        self.value = terms.value(self.response[:, None])[:, 0]
        self.cost = terms.cost(self.response[:, None])[:, 0]
        self.weights = np.ones(len(terms.levels))
        flat = best_flat({SIDE: self.value}, {SIDE: self.cost}, prior.money)
        path = flat_frontier({SIDE: self.value}, {SIDE: self.cost})
        corners = path.shares[SIDE].argmax(axis=1)
        self.useful = tuple(sorted(int(corner) for corner in corners))
        if len(self.useful) < 2:
            raise InvalidInput("no level has more value than the cheapest: there is no price", field="prior.response")
        at = int(np.clip(np.searchsorted(path.cost, flat.cost, side="right"), 1, path.cost.size - 1))
        self.low, self.high = int(corners[at - 1]), int(corners[at])
        self.price = float((path.value[at] - path.value[at - 1]) / (path.cost[at] - path.cost[at - 1]))
        self.mixture, self.policy_value, self.policy_cost = flat.shares[SIDE], flat.value, flat.cost
        mean = float(self.mixture @ self.response)
        self.policy_variance = float(self.mixture @ (self.variance + self.response**2)) - mean**2

    def spread(self, requests: float) -> float:
        """Factor on the variance of a mean over accounts with so many dependent requests each."""
        return 1.0 + max(requests - 1.0, 0.0) * self.correlation

    def level_rows(self, accounts: float, tried: NDArray[np.intp]) -> Array:
        """(J,): independent requests at each level that exploring accounts are worth; 0 at levels not tried."""
        rows = np.zeros(len(self.weights))
        shares = self.weights[tried] / self.weights[tried].sum()
        rows[tried] = [accounts * self.requests * share / self.spread(self.requests * share) for share in shares]
        return rows

    def exploring(self, wanted: Precision, tried: NDArray[np.intp]) -> int:
        """Accounts of the exploring arm that curve and price need."""
        of_one, needed = self.level_rows(1.0, tried), 0.0
        if wanted.curve is not None:
            needed = max(needed, self.curve_variance(of_one, tried) * (self.z / wanted.curve) ** 2)
        if wanted.price is not None:
            needed = max(needed, self.price_variance(of_one) * (self.z / (wanted.price * self.price)) ** 2)
        return math.ceil(needed)

    def curve_variance(self, rows: Array, tried: NDArray[np.intp]) -> float:
        """Variance of the mean response at the level that is known least, with so many requests (J,) at each."""
        return float((self.variance[tried] / rows[tried]).max())

    def price_variance(self, rows: Array) -> float:
        """Variance of the price with so many independent requests (J,) at each level."""
        weight = float(self.terms.weight)
        paid = np.asarray(self.terms.unit_costs, dtype=np.float64)
        slope = paid if self.terms.cost_basis == "on_response" else np.zeros_like(paid)
        ends = np.array([self.low, self.high])
        gradient = (weight - self.price * slope[ends]) / (self.cost[self.high] - self.cost[self.low])
        return float(gradient**2 @ (self.variance[ends] / rows[ends]))

    @property
    def sums(self) -> tuple[float, float]:
        """Variance of the sum of responses of an account in the holdout, and under the policy."""
        assert self.visits is not None
        pairs = max(self.visits + self.requests**2 - self.requests, 0.0)
        mixed = float(self.mixture @ self.response)
        held, policy = (
            variance * (self.requests + pairs * self.correlation) + self.visits * mean**2
            for variance, mean in ((float(self.variance[0]), float(self.response[0])), (self.policy_variance, mixed))
        )
        return held, policy

    def lift_error(self, holdout: float, policy: float) -> float:
        """Standard error of the lift per account with so many accounts."""
        if not (holdout > 0 and policy > 0):
            return float("nan")
        held, treated = self.sums
        return math.sqrt(held / holdout + treated / policy)

    def holdout(self, accounts: float, half_width: float) -> float:
        """Return the fewest accounts of a holdout for the half-width of the lift when the policy gets the rest; NaN
        where no number suffices.

        The smaller root of S·n·(N − n) = V_h·(N − n) + V_p·n.
        """
        s, (held, policy) = (half_width / self.z) ** 2, self.sums
        b = s * accounts + held - policy
        root = b * b - 4 * s * held * accounts
        return (b - math.sqrt(root)) / (2 * s) if root >= 0 and b > 0 else float("nan")

    def best_lift(self, accounts: float) -> float:
        """Smallest half-width of the lift that any division of the accounts gives."""
        return self.z * sum(map(math.sqrt, self.sums)) / math.sqrt(accounts)


def _planned(design: _Design, accounts: int, wanted: Precision, tried: NDArray[np.intp]) -> ExperimentPlan:
    exploring = design.exploring(wanted, tried)
    left = accounts - exploring
    if left < 2:
        raise InvalidInput(
            f"curve and price need {exploring:,} accounts that explore; there are {accounts:,}: name a wider one",
            field="precision",
        )
    held: float = 0
    if wanted.lift is not None:
        held = design.holdout(left, wanted.lift)
        if math.isnan(held):
            raise InvalidInput(
                f"{left:,} accounts give {design.best_lift(left):.3g} at best; name a wider one",
                field="precision.lift",
            )
        held = math.ceil(held)
    shares = {"holdout": math.ceil(held * WHOLE / accounts), "explore": math.ceil(exploring * WHOLE / accounts)}
    shares["policy"] = WHOLE - sum(shares.values())
    require(shares["policy"] > 0, "precision", "leaves no accounts to the policy; name a wider one")
    number = {arm: round(accounts * shares[arm] / WHOLE) for arm in ("holdout", "policy", "explore")}
    requests = {arm: accounts_of * design.requests for arm, accounts_of in number.items()}
    drawn_value, drawn_cost = (
        float(np.average(each[tried], weights=design.weights[tried])) for each in (design.value, design.cost)
    )
    paid = {"holdout": float(design.cost[0]), "policy": design.policy_cost, "explore": drawn_cost}
    net = design.policy_value - design.price * design.policy_cost
    error = design.lift_error(number["holdout"], number["policy"])
    rows = design.level_rows(number["explore"], tried)
    detectable = (design.z + float(special.ndtri(POWER))) * error
    effects: Array = detectable * EFFECTS
    power = special.ndtr(effects / error - design.z) + special.ndtr(-effects / error - design.z)
    half_widths = {"lift": design.z * error} if number["holdout"] else {}
    if number["explore"]:
        half_widths["curve"] = design.z * math.sqrt(design.curve_variance(rows, tried))
        half_widths["price"] = design.z * math.sqrt(design.price_variance(rows)) / design.price
    return ExperimentPlan(
        levels=tuple(design.terms.levels[place] for place in tried),
        shares={arm: shares[arm] for arm in number},
        accounts=number,
        money={arm: requests[arm] * paid[arm] for arm in number},
        half_widths=half_widths,
        price=design.price,
        exploration_cost=requests["explore"] * (net - (drawn_value - design.price * drawn_cost)),
        holdout_cost=requests["holdout"] * (net - float(design.value[0] - design.price * design.cost[0])),
        effects=tuple(effects.tolist()) if number["holdout"] else (),
        power=tuple(power.tolist()) if number["holdout"] else (),
        detectable=detectable,
    )
