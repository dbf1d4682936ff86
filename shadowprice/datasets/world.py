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
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.datasets.world_graph import GraphOptions, WorldGraph, draw_graph
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


@dataclass(frozen=True, kw_only=True)
class WorldOptions(GraphOptions):
    """Options of the generator, with those of its graph.

    trials                 trial requests per account and side
    rho                    strength of influence along edges, 0 for none
    spillover              whether the incentives of an account's partners move its own response
    own_change_point       whether customers differ in the incentive at which they move
    budget_per_request     minor units per expected request of the campaign day
    day_requests           expected requests of the campaign day, both sides together

    Raises:
        InvalidInput: an option outside its range.
    """

    trials: int = 8
    rho: float = 1.0
    spillover: bool = False
    own_change_point: bool = False
    budget_per_request: float = 24.0
    day_requests: int = 30_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole(trials=1, day_requests=1)
        self.check_real("rho", "budget_per_request")

    def respond(self, strength: NDArray[np.float64]) -> NDArray[np.float64]:
        """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
        return (own_change_point_response if self.own_change_point else customer_response)(strength)


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
    truth_customer = chosen.respond(strength[customers])
    truth_merchant = merchant_response(strength[merchants])
    profile = HOURLY_SHAPE / HOURLY_SHAPE.sum()

    trial_c = _assign(graph.ids[customers], "customer", CUSTOMER_LEVELS, chosen.trials, profile, random)
    trial_m = _assign(graph.ids[merchants], "merchant", MERCHANT_LEVELS, chosen.trials, profile, random)
    mean_c, mean_m = truth_customer[trial_c.level, trial_c.row], truth_merchant[trial_m.level, trial_m.row]
    if chosen.spillover:
        mean_c = _spill(mean_c, trial_c, trial_m, graph, customers, merchants)
    redeemed = random.random(mean_c.size) < mean_c
    before = random.poisson(6.0 * np.exp(0.3 * random.normal(size=mean_m.size)))
    shares = random.poisson(mean_m * np.maximum(before, 1))

    exposure = pd.concat([trial_c.frame, trial_m.frame], ignore_index=True)
    paid_c = np.asarray(CUSTOMER_LEVELS)[trial_c.level] * redeemed
    paid_m = np.asarray(MERCHANT_LEVELS)[trial_m.level]
    outcome = pd.DataFrame(
        {
            "request_id": exposure["request_id"],
            "observed_at": exposure["decided_at"] + pd.Timedelta(days=3),
            "mature": True,
            "cost_paid": np.concatenate([paid_c, paid_m]).astype(np.int64),
            "redeemed": pd.array([*redeemed.astype(int), *[pd.NA] * shares.size], dtype="Int64"),
            "share_count": pd.array([*[pd.NA] * redeemed.size, *shares], dtype="Int64"),
            "share_count_before": pd.array([*[pd.NA] * redeemed.size, *before], dtype="Int64"),
        }
    )
    offer = pd.DataFrame(
        {
            "offer_id": [f"coupon-{r}" for r in CUSTOMER_LEVELS] + [f"commission-{r}" for r in MERCHANT_LEVELS],
            "side": ["customer"] * len(CUSTOMER_LEVELS) + ["merchant"] * len(MERCHANT_LEVELS),
            "kind": ["coupon"] * len(CUSTOMER_LEVELS) + ["commission"] * len(MERCHANT_LEVELS),
            "face_value": [*CUSTOMER_LEVELS, *MERCHANT_LEVELS],
        }
    )
    campaign = pd.DataFrame(
        [
            {
                "campaign_id": "world",
                "starts_at": pd.Timestamp(TRIAL_START) + pd.Timedelta(days=TRIAL_DAYS + 4),
                "hours": 24,
                "budget_name": "day",
                "budget_form": "total",
                "budget_limit": float(int(chosen.budget_per_request * chosen.day_requests)),
                "cost_basis_customer": "on_response",
                "cost_basis_merchant": "on_grant",
                "weight_merchant": 1.0,
                "expected_requests": chosen.day_requests,
            }
        ]
    )
    tables = validate_tables(
        {
            "account": graph.account_table(TRIAL_START),
            "edge": graph.edge_table(TRIAL_START, random),
            "offer": offer,
            "exposure": exposure,
            "outcome": outcome,
            "campaign": campaign,
        }
    )
    return Dataset(
        name="world",
        tables=tables,
        split=Split(by="account"),
        truth=pd.concat(
            [
                _truth_frame(graph.ids[customers], "customer", CUSTOMER_LEVELS, truth_customer),
                _truth_frame(graph.ids[merchants], "merchant", MERCHANT_LEVELS, truth_merchant),
            ],
            ignore_index=True,
        ),
        notes={
            "source": "simulated: generated with known truth",
            "influence": f"rho = {chosen.rho:g}" + (", with spill-over of incentives" if chosen.spillover else ""),
            "change points": "60 or 120 cents, by customer" if chosen.own_change_point else "80 and 100 cents",
        },
    )


def customer_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
    regime = np.digitize(np.array(CUSTOMER_LEVELS) - 1e-9, CHANGE_POINTS)
    return _redemption(LOG_RATE[regime][:, None] + TRAIT_EFFECT[regime] @ strength.T)


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
    frame: pd.DataFrame
    row: NDArray[np.intp]
    level: NDArray[np.intp]


def _assign(
    ids: NDArray[np.str_],
    side: str,
    levels: tuple[int, ...],
    trials: int,
    profile: NDArray[np.float64],
    random: np.random.Generator,
) -> _Trial:
    row = np.repeat(np.arange(ids.size), trials)
    # Dear arms are drawn less often, as a platform that pays for its trial would have it.
    arm = np.linspace(1.3, 0.7, len(levels))
    arm /= arm.sum()
    level = random.choice(len(levels), size=row.size, p=arm)
    day = random.integers(0, TRIAL_DAYS, size=row.size)
    hour = random.choice(24, size=row.size, p=profile)
    seconds = day * 86_400 + hour * 3600 + random.integers(0, 3600, size=row.size)
    kind = "coupon" if side == "customer" else "commission"
    frame = pd.DataFrame(
        {
            "request_id": [f"trial-{side}-{number:07d}" for number in range(row.size)],
            "account_id": ids[row],
            "side": side,
            "offer_id": [f"{kind}-{levels[j]}" for j in level],
            "decided_at": pd.Timestamp(TRIAL_START) + pd.to_timedelta(seconds, unit="s") + timedelta(seconds=1),
            "propensity": arm[level],
            "policy_version": "trial",
            "exploration": True,
        }
    )
    return _Trial(frame, row, level)


def _spill(
    mean: NDArray[np.float64],
    customers: _Trial,
    merchants: _Trial,
    graph: WorldGraph,
    customer_nodes: NDArray[np.intp],
    merchant_nodes: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Redemption probability moved by the commissions that the customer's merchants were offered."""
    offered = np.zeros(graph.traits.shape[0])
    seen = np.zeros_like(offered)
    np.add.at(offered, merchant_nodes[merchants.row], np.asarray(MERCHANT_LEVELS, float)[merchants.level])
    np.add.at(seen, merchant_nodes[merchants.row], 1.0)
    offered /= np.maximum(seen, 1.0)
    pull, ties = np.zeros_like(offered), np.zeros_like(offered)
    np.add.at(pull, graph.tie[0], offered[graph.tie[1]])
    np.add.at(ties, graph.tie[0], 1.0)
    pull = pull / np.maximum(ties, 1.0) - float(np.mean(MERCHANT_LEVELS))
    hazard = -np.log1p(-mean) * np.exp(0.1 * pull[customer_nodes[customers.row]])
    return np.asarray(-np.expm1(-hazard))


def _truth_frame(
    ids: NDArray[np.str_], side: str, levels: tuple[int, ...], response: NDArray[np.float64]
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "account_id": np.tile(ids, len(levels)),
            "side": side,
            "level": np.repeat(np.arange(len(levels)), ids.size),
            "response": response.ravel(),
        }
    )
