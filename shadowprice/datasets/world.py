"""``world``: a two-sided payment campaign drawn from a generator whose truth is known.

Customers pay at merchants; both have latent traits that their features show only through noise. The behaviour of an
account depends on its own traits and, with strength ρ, on those of its partners over two hops. The influence of a tie
is divided by the number of ties at both ends. Edges are drawn independently of the traits, so at ρ = 0 the graph has
no information.

Customers redeem when the incentive passes a hidden threshold whose hazard rate per cent is piecewise constant with
change points at 80 and 100 cents; traits act differently in each regime, so hazards are not proportional. With
``own_change_point`` every customer has a change point of their own instead, at 60 or at 120 cents, which follows from
the traits. A merchant's number of shares grows linearly with its commission. Incentives of the trial are randomised and
their propensities logged.

The population drifts where ``drift_days`` is set: customers want higher incentives every day, and all respond less.

With ``context`` a customer's response also depends on the request: on the merchant's traits, the basket (``x_basket``)
and the channel (``c_channel``). The truth of an account is then its mean over the requests that it may make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.datasets.world_context import CHANNELS, RequestContext, draw_context, mean_response
from shadowprice.datasets.world_graph import GraphOptions, WorldGraph, draw_graph, of_sides, slices
from shadowprice.errors import InvalidInput
from shadowprice.tables import validate_tables

CUSTOMER_LEVELS = (20, 40, 60, 80, 100, 120, 150, 200)
MERCHANT_LEVELS = (10, 20, 30, 40, 50)
CHANGE_POINTS = (80, 100)

# Log hazard rate per 100 cents and the effect of the two traits, in each of the three regimes.
LOG_RATE = np.log(np.array([0.25, 1.0, 0.3]))
TRAIT_EFFECT = np.array([[0.8, 0.0], [0.9, 0.5], [0.3, -0.5]])

OWN_LOG_RATE, OWN_LOG_JUMP, OWN_STEEPNESS = float(np.log(0.2)), float(np.log(20.0)), 4.0
OWN_SEGMENTS = (60, 120)
"""The level at which a customer with a change point of its own moves: one or the other.

The rate per 100 cents is 0.2 everywhere else and 20 times that in the segment that ends at the customer's own level.
"""

HOURLY_SHAPE = np.array([5, 3, 2, 2, 2, 3, 6, 10, 14, 17, 20, 24, 26, 24, 21, 20, 20, 22, 25, 27, 25, 19, 12, 7], float)
"""Relative arrivals by hour of the day (UTC)."""

TRIAL_START = datetime(2026, 3, 2, tzinfo=UTC)
TRIAL_DAYS = 2

MOVE, FADE = 5.0, 0.03
"""Cents by which the change points rise in a day of drift, and the share of the hazard that is lost in it."""

SPILL = 0.1
"""Log hazard of a customer for a minor unit more that its merchants are offered."""
PART = 1 << 19
"""Rows of a table that are made at once."""


@dataclass(frozen=True, kw_only=True)
class WorldOptions(GraphOptions):
    """Options of the generator, with those of its graph.

    trials                 trial requests per account and side
    rho                    strength of influence along edges, 0 for none
    spillover              whether the incentives of an account's partners move its own response
    own_change_point       whether customers differ in the incentive at which they move
    drift_days             days of drift before the trial
    context                weight of a request's merchant, basket and channel in the customer's response, 0 for none
    budget_per_request     minor units per expected request of the campaign day
    day_requests           expected requests of the campaign day, both sides together

    Raises:
        InvalidInput: an option outside its range.
    """

    trials: int = 8
    rho: float = 1.0
    spillover: bool = False
    own_change_point: bool = False
    drift_days: float = 0.0
    context: float = 0.0
    budget_per_request: float = 24.0
    day_requests: int = 30_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole(trials=1, day_requests=1)
        self.check_real("rho", "context", "budget_per_request", "drift_days")
        if self.drift_days and self.own_change_point:
            raise InvalidInput("has no drift with own_change_point", field="options.drift_days")

    def respond(self, strength: NDArray[np.float64]) -> NDArray[np.float64]:
        """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
        if self.own_change_point:
            return own_change_point_response(strength)
        return drifted_response(strength, self.drift_days) if self.drift_days else customer_response(strength)


def generator(seed: int) -> np.random.Generator:
    """Random numbers of the world at a seed: the graph is drawn first, then the trial."""
    return np.random.default_rng(np.random.SeedSequence([seed, 0x5AD0]))


def load(_data: str | None = None, *, seed: int = 0, **options: object) -> Dataset:
    """Generate the world. ``options`` are the fields of :class:`WorldOptions`."""
    unknown = sorted(set(options) - {field.name for field in fields(WorldOptions)})
    if unknown:
        raise InvalidInput(f"has no option {', '.join(unknown)}", field="options of data set 'world'")
    chosen = WorldOptions(**options)  # type: ignore[arg-type]
    random = generator(seed)
    graph = draw_graph(chosen, random)
    customers, merchants = graph.customers, graph.merchants

    strength = graph.influence(chosen.rho)
    truth_customer = true_response(chosen, graph, strength)
    truth_merchant = merchant_response(strength[merchants])
    profile = HOURLY_SHAPE / HOURLY_SHAPE.sum()

    trial_c = _assign(customers, CUSTOMER_LEVELS, chosen.trials, profile, random)
    trial_m = _assign(merchants, MERCHANT_LEVELS, chosen.trials, profile, random)
    context: RequestContext | None = None
    mean = _expected(truth_customer, trial_c)
    if chosen.context:
        context = draw_context(graph, trial_c.node.astype(np.intp), context_generator(seed))
        mean = chosen.respond(context.moves(graph, strength[trial_c.node], chosen.context))[
            trial_c.level, np.arange(trial_c.row.size)
        ]
    if chosen.spillover:
        mean = _spill(mean, trial_c, trial_m, graph)
    redeemed = random.random(mean.size) < mean
    mean = _expected(truth_merchant, trial_m)
    before = random.poisson(6.0 * np.exp(0.3 * random.normal(size=mean.size)))
    shares = random.poisson(mean * np.maximum(before, 1))
    # What a large world does not need any more is let go before its tables are checked.
    del mean, strength
    trial = _Rows(graph.ids, trial_c, trial_m, redeemed, shares, before, context)
    offer = pd.DataFrame(
        {
            "offer_id": [f"coupon-{r}" for r in CUSTOMER_LEVELS] + [f"commission-{r}" for r in MERCHANT_LEVELS],
            "side": ["customer"] * len(CUSTOMER_LEVELS) + ["merchant"] * len(MERCHANT_LEVELS),
            "kind": ["coupon"] * len(CUSTOMER_LEVELS) + ["commission"] * len(MERCHANT_LEVELS),
            "face_value": [*CUSTOMER_LEVELS, *MERCHANT_LEVELS],
        }
    )
    campaign = campaign_table(
        "world",
        pd.Timestamp(TRIAL_START) + pd.Timedelta(days=TRIAL_DAYS + 4),
        int(chosen.budget_per_request * chosen.day_requests),
        cost_basis_merchant="on_grant",
        weight_merchant=1.0,
        expected_requests=chosen.day_requests,
    )
    tables = validate_tables(
        {
            "account": graph.account_parts(TRIAL_START, PART),
            "edge": graph.edge_parts(TRIAL_START, PART, random),
            "offer": offer,
            "exposure": (trial.exposure(part) for part in slices(trial.size, PART)),
            "outcome": (trial.outcome(part) for part in slices(trial.size, PART)),
            "campaign": campaign,
        }
    )
    return Dataset(
        name="world",
        tables=tables,
        split=Split(by="account"),
        truth=_truth_frame(
            graph.ids, {"customer": (customers, truth_customer), "merchant": (merchants, truth_merchant)}
        ),
        notes={
            "source": "simulated: generated with known truth",
            "influence": f"rho = {chosen.rho:g}" + (", with spill-over of incentives" if chosen.spillover else ""),
            "change points": "60 or 120 cents, by customer" if chosen.own_change_point else "80 and 100 cents",
        },
    )


def context_generator(seed: int) -> np.random.Generator:
    """Random numbers of the context of the trial's requests at a seed."""
    return np.random.default_rng(np.random.SeedSequence([seed, 0xC047]))


def true_response(
    options: WorldOptions, graph: WorldGraph, strength: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(J, N): true response of the customers; with context, the mean over their requests.

    ``strength`` (N, 2) is the influence in the graph, where it is known already.
    """
    strength = graph.influence(options.rho) if strength is None else strength
    if options.context:
        return mean_response(graph, strength, options.context, options.respond)
    return options.respond(strength[graph.customers])


def customer_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
    regime = np.digitize(np.array(CUSTOMER_LEVELS) - 1e-9, CHANGE_POINTS)
    return _redemption(LOG_RATE[regime][:, None] + TRAIT_EFFECT[regime] @ strength.T)


def drifted_response(strength: NDArray[np.float64], days: float) -> NDArray[np.float64]:
    """(J, N): response as :func:`customer_response` after days of drift; after 0 days it is the same.

    The hazard of a regime, faded, times the part of the incentive that lies in it.
    """
    rate = np.exp(LOG_RATE[:, None] + TRAIT_EFFECT @ strength.T) * (1.0 - FADE) ** days / 100.0
    first, second = (point + MOVE * days for point in CHANGE_POINTS)
    level = np.array(CUSTOMER_LEVELS, dtype=np.float64)
    within = np.diff(np.minimum(level[:, None], [0.0, first, second, np.inf]), axis=1)
    return np.asarray(-np.expm1(-within @ rate))


def drifted_truth(days: float, *, seed: int = 0, **options: Any) -> pd.DataFrame:
    """Truth of the accounts of :func:`load` after days of drift, as :attr:`Dataset.truth`; no trial is drawn."""
    chosen = WorldOptions(**options | {"drift_days": days})
    graph = draw_graph(chosen, generator(seed))
    merchants = merchant_response(graph.influence(chosen.rho)[graph.merchants])
    customers = true_response(chosen, graph)
    return _truth_frame(graph.ids, {"customer": (graph.customers, customers), "merchant": (graph.merchants, merchants)})


def own_change_point_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): response as :func:`customer_response`, where every customer responds at a level of their own.

    The first trait raises all rates alike; the second sets at which of the two levels the customer responds, sharply
    but not abruptly: the jump of the log rate is split between the two segments by a logistic function of it.
    """
    log_rate = np.tile(OWN_LOG_RATE + TRAIT_EFFECT[0, 0] * strength[:, 0], (len(CUSTOMER_LEVELS), 1))
    early = 0.5 * (1.0 + np.tanh(0.5 * OWN_STEEPNESS * strength[:, 1]))
    for level, share in zip(OWN_SEGMENTS, (early, 1.0 - early), strict=True):
        log_rate[CUSTOMER_LEVELS.index(level)] += OWN_LOG_JUMP * share
    return _redemption(log_rate)


def _redemption(log_rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): response from the log rate per 100 cents in each segment (J, N)."""
    width = np.diff(np.array([0, *CUSTOMER_LEVELS]))[:, None] / 100.0
    return np.asarray(-np.expm1(-np.cumsum(width * np.exp(log_rate), axis=0)))


def merchant_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): true expected share ratio of merchants with the given trait strengths (N, 2)."""
    slope = 0.5 * np.exp(0.5 * strength[:, 0])
    start = np.maximum(0.8 + 0.15 * strength[:, 1], 0.1)
    return np.asarray(start + np.asarray(MERCHANT_LEVELS)[:, None] / 100.0 * slope)


@dataclass(frozen=True)
class _Trial:
    """Requests of one side: which account of the side, its node, the level it was offered, and when."""

    row: NDArray[np.int32]
    node: NDArray[np.int32]
    level: NDArray[np.int8]
    seconds: NDArray[np.int32]
    arm: NDArray[np.float64]


def _assign(
    nodes: NDArray[np.intp],
    levels: tuple[int, ...],
    trials: int,
    profile: NDArray[np.float64],
    random: np.random.Generator,
) -> _Trial:
    row = np.repeat(np.arange(nodes.size, dtype=np.int32), trials)
    # Dear arms are drawn less often, as a platform that pays for its trial would have it.
    arm = np.linspace(1.3, 0.7, len(levels))
    arm /= arm.sum()
    level = random.choice(len(levels), size=row.size, p=arm).astype(np.int8)
    seconds = random.integers(0, TRIAL_DAYS, size=row.size).astype(np.int32) * 86_400
    seconds += random.choice(24, size=row.size, p=profile).astype(np.int32) * 3600
    seconds += random.integers(0, 3600, size=row.size).astype(np.int32)
    return _Trial(row, nodes[row].astype(np.int32), level, seconds, arm)


def _expected(truth: NDArray[np.float64], trial: _Trial) -> NDArray[np.float64]:
    """(n,): true response of each request, from that of the accounts of its side (J, N)."""
    found = np.empty(trial.row.size)
    for part in slices(trial.row.size, PART):
        found[part] = truth[trial.level[part], trial.row[part]]
    return found


@dataclass(frozen=True)
class _Rows:
    """Requests of a trial and their outcomes as rows of tables: those of the customers, then those of the merchants."""

    ids: NDArray[np.str_]
    customers: _Trial
    merchants: _Trial
    redeemed: NDArray[np.bool_]
    shares: NDArray[np.int64]
    before: NDArray[np.int64]
    context: RequestContext | None = None

    @property
    def size(self) -> int:
        return self.redeemed.size + self.shares.size

    def exposure(self, part: slice) -> pd.DataFrame:
        """Rows of the exposure table."""
        return self._of_sides(part, self._exposure)

    def outcome(self, part: slice) -> pd.DataFrame:
        """Rows of the outcome table."""
        return self._of_sides(part, self._outcome)

    def _of_sides(self, part: slice, rows: Callable[[str, slice], pd.DataFrame]) -> pd.DataFrame:
        own = of_sides(part, self.redeemed.size)
        return pd.concat([rows(side, each) for side, each in own], ignore_index=True)

    def _request_id(self, side: str, part: slice) -> list[str]:
        return [f"trial-{side}-{number:07d}" for number in range(part.start, part.stop)]

    def _decided_at(self, side: str, part: slice) -> pd.Series[Any]:
        trial = self.customers if side == "customer" else self.merchants
        return pd.Series(pd.Timestamp(TRIAL_START) + pd.to_timedelta(trial.seconds[part] + 1, unit="s"))

    def _exposure(self, side: str, part: slice) -> pd.DataFrame:
        trial, kind, levels = (
            (self.customers, "coupon", CUSTOMER_LEVELS)
            if side == "customer"
            else (self.merchants, "commission", MERCHANT_LEVELS)
        )
        rows = pd.DataFrame(
            {
                "request_id": self._request_id(side, part),
                "account_id": self.ids[trial.node[part]],
                "side": side,
                "offer_id": np.array([f"{kind}-{level}" for level in levels], dtype=object)[trial.level[part]],
                "decided_at": self._decided_at(side, part),
                "propensity": trial.arm[trial.level[part]],
                "policy_version": "trial",
                "exploration": True,
            }
        )
        return rows if self.context is None else rows.assign(**self._context(self.context, side, part))

    def _context(self, context: RequestContext, side: str, part: slice) -> dict[str, Any]:
        """Columns of the requests' context; merchants have none."""
        if side == "merchant":
            rows = part.stop - part.start
            empty = pd.Series([None] * rows, dtype=object)
            return {"partner_id": empty, "x_basket": np.full(rows, np.nan), "c_channel": empty}
        partner = context.partner[part]
        named = self.ids[partner].astype(object)
        named[partner < 0] = None
        return {
            "partner_id": named,
            "x_basket": context.basket[part],
            "c_channel": np.array(CHANNELS, dtype=object)[context.channel[part]],
        }

    def _outcome(self, side: str, part: slice) -> pd.DataFrame:
        unknown = pd.array([pd.NA] * (part.stop - part.start), dtype="Int64")
        if side == "customer":
            paid = np.asarray(CUSTOMER_LEVELS)[self.customers.level[part]] * self.redeemed[part]
            redeemed, shares, before = pd.array(self.redeemed[part].astype(int), dtype="Int64"), unknown, unknown
        else:
            paid = np.asarray(MERCHANT_LEVELS)[self.merchants.level[part]]
            redeemed = unknown
            shares, before = (pd.array(each[part], dtype="Int64") for each in (self.shares, self.before))
        return pd.DataFrame(
            {
                "request_id": self._request_id(side, part),
                "observed_at": self._decided_at(side, part) + pd.Timedelta(days=3),
                "mature": True,
                "cost_paid": paid.astype(np.int64),
                "redeemed": redeemed,
                "share_count": shares,
                "share_count_before": before,
            }
        )


def _spill(
    mean: NDArray[np.float64],
    customers: _Trial,
    merchants: _Trial,
    graph: WorldGraph,
) -> NDArray[np.float64]:
    """Redemption probability moved by the commissions that the customer's merchants were offered."""
    offered = np.zeros(graph.traits.shape[0])
    seen = np.zeros_like(offered)
    np.add.at(offered, merchants.node, np.asarray(MERCHANT_LEVELS, float)[merchants.level])
    np.add.at(seen, merchants.node, 1.0)
    return spilled(mean, customers.node, offered / np.maximum(seen, 1.0), graph)


def spilled(
    mean: NDArray[np.float64], customer: NDArray[np.integer], offered: NDArray[np.float64], graph: WorldGraph
) -> NDArray[np.float64]:
    """Redemption probability of n requests where merchants move their customers.

    Args:
        mean: (n,), probability without influence.
        customer: (n,), node of each request's customer.
        offered: (N,), mean commission offered to each account; what is not a merchant is not read.
        graph: with the ties.
    """
    pull, ties = np.zeros_like(offered), np.zeros_like(offered)
    np.add.at(pull, graph.tie[0], offered[graph.tie[1]])
    np.add.at(ties, graph.tie[0], 1.0)
    pull = pull / np.maximum(ties, 1.0) - float(np.mean(MERCHANT_LEVELS))
    hazard = -np.log1p(-mean) * np.exp(SPILL * pull[customer])
    return np.asarray(-np.expm1(-hazard))


def _truth_frame(
    ids: NDArray[np.str_], truth: Mapping[str, tuple[NDArray[np.intp], NDArray[np.float64]]]
) -> pd.DataFrame:
    """Rows of :attr:`Dataset.truth` from the nodes and responses (J, N) of each side; names are stored once."""
    nodes = [np.tile(own.astype(np.int32), len(response)) for own, response in truth.values()]
    levels = [np.repeat(np.arange(len(response), dtype=np.int8), own.size) for own, response in truth.values()]
    side = np.repeat(np.arange(len(truth), dtype=np.int8), [each.size for each in nodes])
    return pd.DataFrame(
        {
            "account_id": pd.Categorical.from_codes(np.concatenate(nodes), pd.Index(ids, dtype=object)),
            "side": pd.Categorical.from_codes(side, pd.Index(list(truth), dtype=object)),
            "level": np.concatenate(levels),
            "response": np.concatenate([response.ravel() for _, response in truth.values()]),
        }
    )
