"""``funds``: a delivery of funds after S2, drawn with known probabilities and amounts.

Users shop at merchants whose tier is near their own. Each user was delivered a few funds at random, may have clicked,
and may then have bought. The amount is lognormal with a spread of the user and the fund:

    wealth     W_u = ρ·z_u + √(1 − ρ²)·ε_u,    z_u the standardized mean tier of the merchants u pays at
    click      logit = a_j + interest_uj
    purchase   logit = b_j + ½·interest_uj + s_j·W_u             given a click
    amount     log(PA + 1) ~ N(m_j + s_j·W_u + 0.2·age_u, σ_j + 0.6·volatility_u), above the least purchase

With ``censored`` the amount decides the purchase, as S2's premise of their dependence states. A user who clicks has a
latent log(PA + 1) ~ N(log 2 + a_j·σ_j + ½·s_j·W_u ± 0.15·age_u, σ_j), and buys where it reaches the least purchase. Of
two funds of a risk level one is bought in lots (σ = ½), where nearly every latent amount suffices. The other is bought
for any amount (σ = 2.2), where half of them fall short. The offset a_j gives every fund the same expected units of a
user whose wealth, age and interest are 0: 6 by default, and fewer units mean that more amounts fall short. A model
that misjudges the value of a spread thus errs about all users alike. Interest is weaker and independent of the amount.

A fund has the features ``x_return``, its mean yearly return, and ``x_lot``, 1 where it is bought in lots. Returns rise
from 2 % to 8 %. Intercepts, slopes and taste above are functions of the return; ``x_lot`` affects only spread and mean
of latent amounts. Two funds with the same features differ only in their risk level.

ρ is ``strength``: the part of the wealth that the consumption graph reveals. At 0 the graph has no information, and W
keeps its variance. Merchants show their tier with noise; users show their own part ε of the wealth, age, volatility
and city. Interest, from cautious to bold, shows only in past actions with funds. Funds that sell well contribute
little and the others much, so maximizing conversions loses money. Every fund has a risk level and every user a
tolerance; demands add up to the users and a plan exists.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from shadowprice.checks import require
from shadowprice.datasets.fund_history import actions_before, payments, times_before
from shadowprice.errors import InvalidInput
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.snapshot import GraphSnapshot

STARTS = datetime(2026, 3, 2, tzinfo=UTC)
UNIT = 100
"""Minor units of the least purchase."""
LEAST = np.log(2.0)
TRIAL_DAYS = 38
ENDS = STARTS + timedelta(days=TRIAL_DAYS)
INTEREST, LATENT_INTEREST = 1.5, 0.6
"""Standard deviation of the taste for bold funds over cautious ones, on the scale of the log-odds of a click."""
LATENT_CLICK = 0.4
"""Increase of the log-odds of a click where a latent amount decides."""
LATENT_SPREADS = (2.2, 0.5)
"""Sigma of latent amounts for funds of any amount, and for funds bought in lots."""
RETURNS = (0.02, 0.08)
"""Mean yearly return of the most cautious and of the boldest fund."""
CITIES = ("a", "b", "c", "d")
CITY_EFFECT = np.array([-0.3, -0.1, 0.1, 0.3])


@dataclass(frozen=True, kw_only=True)
class FundOptions:
    """Options of the simulator.

    users       accounts, all of whom are to be given a fund
    merchants   where they pay
    funds       K; S2 has 4 and 8
    deliveries  labeled deliveries of each user
    strength    ρ in [0, 1], the part of the wealth that flows along the graph
    censored      whether a purchase is a latent amount that reaches the least purchase
    brought     expected units of a delivery of any fund to a user without wealth, age and interest, with ``censored``
    """

    users: int = 2000
    merchants: int = 200
    funds: int = 8
    deliveries: int = 8
    strength: float = 0.9
    censored: bool = False
    brought: float = 6.0

    def __post_init__(self) -> None:
        for name in ("users", "merchants", "funds", "deliveries"):
            value = getattr(self, name)
            require(float(value).is_integer() and value >= 1, name, "must be a whole number, at least 1")
            object.__setattr__(self, name, int(value))
        require(self.funds in (4, 8), "funds", "must be 4 or 8, as in S2")
        if self.users < 10 * self.funds:
            raise InvalidInput(f"must be at least {10 * self.funds}", field="users")
        require(0 <= self.strength <= 1, "strength", "must lie in [0, 1]")
        require(0.01 <= self.brought <= 100, "brought", "must lie between 0.01 and 100")


@dataclass(frozen=True, eq=False)
class Funds:
    """A drawn delivery.

    users       account_id, risk_tolerance, x_*, c_*: one row per user
    merchants   account_id, x_*
    offers      level, x_return, x_lot: one row per fund
    edges       canonical edge table of payments
    actions     canonical action table
    deliveries  account_id, level, response, clicked, amount (minor units), propensity, decided_at
    risk_level  (K,); demand (K,), sum N
    click, convert, mu, sigma   float32 (K, N): the truth; the purchase given a click is convert / click
    """

    users: pd.DataFrame
    merchants: pd.DataFrame
    offers: pd.DataFrame
    edges: pd.DataFrame
    actions: pd.DataFrame
    deliveries: pd.DataFrame
    risk_level: NDArray[np.int64]
    demand: NDArray[np.int64]
    click: NDArray[np.float32]
    convert: NDArray[np.float32]
    mu: NDArray[np.float32]
    sigma: NDArray[np.float32]

    @property
    def value(self) -> NDArray[np.float64]:
        """(K, N): expected amount of a delivery, minor units."""
        return UNIT * self.convert * mean_amount(self.mu.astype(np.float64), self.sigma.astype(np.float64))

    @property
    def log_value(self) -> NDArray[np.float64]:
        """(K, N): expected log(1 + units) of a delivery."""
        return self.convert * mean_log_amount(self.mu.astype(np.float64), self.sigma.astype(np.float64))

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """(K, N): funds that are not too risky for a user."""
        return self.risk_level[:, None] <= self.users["risk_tolerance"].to_numpy()

    def frame(self) -> pd.DataFrame:
        """Training frame: the deliveries with the features of their users."""
        features = self.users.drop(columns="risk_tolerance")
        rows = self.deliveries.merge(features, on="account_id", how="left", sort=False)
        rows["snapshot_at"] = rows.pop("decided_at").dt.as_unit("us").astype(np.int64) / 1e6
        return rows

    def requests(self) -> pd.DataFrame:
        """One request of every user at the end of the trial: what a model scores."""
        return self.users.drop(columns="risk_tolerance").assign(snapshot_at=ENDS.timestamp())

    def behaviours(self) -> pd.DataFrame:
        """account_id, level, action, ts: what the models of funds read."""
        level = self.actions["offer_id"].str.removeprefix("fund-").astype(np.int64)
        return self.actions.drop(columns="offer_id").assign(level=level)

    def graph(self) -> GraphSnapshot:
        """The consumption graph when the trial starts."""
        nodes = [self.users.drop(columns="risk_tolerance").assign(side="customer")]
        nodes.append(self.merchants.assign(side="merchant"))
        return build_snapshot(pd.concat(nodes, ignore_index=True), self.edges, STARTS)


def mean_amount(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[e^v − 1] of v ~ N(mu, sigma) above log 2, in units."""
    above = (mu - LEAST) / sigma
    share = np.exp(mu + 0.5 * sigma**2) * ndtr(above + sigma) - ndtr(above)
    return np.asarray(share / ndtr(above))


def mean_log_amount(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[v] of v ~ N(mu, sigma) above log 2."""
    above = (mu - LEAST) / sigma
    return np.asarray(mu + sigma * np.exp(-0.5 * above**2) / np.sqrt(2 * np.pi) / ndtr(above))


def draw(options: FundOptions, seed: int = 0) -> Funds:
    """Draw users, graph, behaviour, deliveries and outcomes. O(users·(funds + deliveries + actions))."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 0xF04D]))
    n, k = options.users, options.funds
    ids = np.array([f"u{number:07d}" for number in range(n)])
    shops = np.array([f"m{number:06d}" for number in range(options.merchants)])
    tier = np.sort(random.normal(size=options.merchants))
    user, shop = payments(n, options.merchants, random)
    reach = np.bincount(user, tier[shop], n) / np.bincount(user, minlength=n)
    own = random.normal(size=n)
    wealth = options.strength * (reach - reach.mean()) / reach.std() + np.sqrt(1 - options.strength**2) * own
    age, volatility, city = random.normal(size=n), random.random(n), random.integers(0, len(CITIES), n)
    offers = _offers(k)
    low, high = RETURNS
    place = ((offers["x_return"].to_numpy() - low) / (high - low))[:, None]
    taste = LATENT_INTEREST if options.censored else INTEREST
    interest = taste * random.normal(size=n) * (2 * place - 1) + 0.3 * random.normal(size=(k, n))
    slope = 0.5 + 0.5 * place
    plain = -0.7 - 0.3 * place
    click = expit(plain + interest + CITY_EFFECT[city])
    sigma = 0.45 + 0.35 * place + 0.6 * volatility
    mu = 2.5 + 1.5 * place + slope * wealth + 0.2 * age
    if options.censored:
        click = expit(logit(click) + LATENT_CLICK)
        mu, sigma = _censored_amounts(expit(plain + LATENT_CLICK), offers, options.brought, slope * wealth, age)
        convert = click * ndtr((mu - LEAST) / sigma)
    else:
        convert = click * expit(-0.3 - 1.5 * place + 0.5 * interest + slope * wealth)

    risk_level = 1 + np.arange(k) // 2
    demand = np.floor(random.dirichlet(np.full(k, 4.0)) * n).astype(np.int64)
    demand[0] += n - demand.sum()
    tolerance = random.permutation(np.repeat(risk_level, demand))
    tolerance = np.maximum(tolerance, random.integers(1, risk_level[-1] + 1, n))

    may = (risk_level[:, None] <= tolerance).sum(axis=0)
    deliveries = _deliveries(ids, may, click, convert, mu, sigma, options.deliveries, random)
    return Funds(
        users=pd.DataFrame(
            {
                "account_id": ids,
                "risk_tolerance": tolerance,
                "x_age": age,
                "x_balance": own + random.normal(size=n),
                "x_volatility": volatility,
                "x_tolerance": tolerance.astype(float),
                "c_city": np.array(CITIES)[city],
            }
        ),
        merchants=pd.DataFrame(
            {
                "account_id": shops,
                "x_ticket": tier + 0.4 * random.normal(size=tier.size),
                "x_size": random.normal(size=tier.size),
            }
        ),
        offers=offers,
        edges=pd.DataFrame(
            {
                "src": ids[user],
                "dst": shops[shop],
                "relation": "consumed_at",
                "weight": 1.0,
                "ts": times_before(STARTS, random.random(user.size)),
            }
        ),
        actions=actions_before(STARTS, ids, interest, random),
        deliveries=deliveries,
        risk_level=risk_level,
        demand=demand,
        click=click.astype(np.float32),
        convert=convert.astype(np.float32),
        mu=mu.astype(np.float32),
        sigma=sigma.astype(np.float32),
    )


def deliver_again(drawn: Funds, deliveries: int, seed: int = 0) -> pd.DataFrame:
    """Draw ``deliveries`` more to each of the same users, independent of ``drawn``."""
    ids, may = drawn.users["account_id"].to_numpy(dtype=str), drawn.allowed.sum(axis=0)
    click, convert, mu, sigma = (
        values.astype(np.float64) for values in (drawn.click, drawn.convert, drawn.mu, drawn.sigma)
    )
    return _deliveries(ids, may, click, convert, mu, sigma, deliveries, np.random.default_rng([seed, 0xA6A1]))


def _offers(funds: int) -> pd.DataFrame:
    """Features of the funds; of two funds of a risk level the first is bought in lots."""
    level = np.arange(funds)
    return pd.DataFrame({"level": level, "x_return": np.linspace(*RETURNS, funds), "x_lot": (level + 1.0) % 2})


def _censored_amounts(
    click: NDArray[np.float64],
    offers: pd.DataFrame,
    brought: float,
    wealth: NDArray[np.float64],
    age: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and spread (K, N) of the latent log(PA + 1); ``click`` (K, 1) of a user without interest,
    ``brought`` in units, ``wealth`` (K, N) as it counts for each fund."""
    lot = offers["x_lot"].to_numpy(dtype=np.int64)[:, None]
    sigma = np.take(LATENT_SPREADS, lot)

    def short(above: float, spread: float, clicked: float) -> float:
        mu = np.array(LEAST + above * spread)
        return float(np.log(clicked * ndtr(above) * mean_amount(mu, np.array(spread)) / brought))

    above = np.array([[brentq(short, -12.0, 30.0, args=pair)] for pair in zip(sigma[:, 0], click[:, 0], strict=True)])
    own = 0.15 * (1 - 2 * lot) * age
    return LEAST + above * sigma + 0.5 * wealth + own, np.broadcast_to(sigma, wealth.shape)


def _deliveries(
    ids: NDArray[np.str_],
    may: NDArray[np.int64],
    click: NDArray[np.float64],
    convert: NDArray[np.float64],
    mu: NDArray[np.float64],
    sigma: NDArray[np.float64],
    count: int,
    random: np.random.Generator,
) -> pd.DataFrame:
    """``count`` deliveries to each user, each of one of the first ``may`` (N,) funds, and what came of them."""
    user = np.repeat(np.arange(ids.size), count)
    level = (random.random(user.size) * may[user]).astype(np.int64)
    clicked = random.random(user.size) < click[level, user]
    bought = clicked & (random.random(user.size) < (convert / click)[level, user])
    amount = np.where(bought, _amounts(mu[level, user], sigma[level, user], random), 0)
    at = random.integers(1, TRIAL_DAYS * 86_400, user.size)
    return pd.DataFrame(
        {
            "account_id": ids[user],
            "level": level,
            "response": bought.astype(float),
            "clicked": clicked.astype(float),
            "amount": amount,
            "propensity": 1.0 / may[user],
            "decided_at": pd.Timestamp(STARTS) + pd.to_timedelta(at, unit="s"),
        }
    )


def _amounts(mu: NDArray[np.float64], sigma: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Minor units: lognormal above the least purchase, by inversion from above: little may be left there."""
    v = mu - sigma * ndtri(ndtr((mu - LEAST) / sigma) * (1 - random.random(mu.size)))
    return np.asarray(np.maximum(np.rint(UNIT * np.expm1(v)), UNIT), dtype=np.int64)
