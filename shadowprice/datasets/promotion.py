"""Data set ``promotion``: the synthetic promotion of S1 (section 5, equations 18–20), with known response curves.

Accounts have categorical features with, say, 3, 5 and 7 values. Every combination of values has one curve. The
slope of the curve is a Gaussian bump over the incentives h = 0 … 100:

    g_h  = exp(−(h − μ)² / 2δ²),    Z = max_h g_h
    f(c) = min(1, a + b · Σ_{h ≤ c} g_h / (100 Z)),    b = 1 − a

with a ~ U(0, 1), μ ~ U(−50, 150) and δ ~ U(0, 50). The normalization of the Gaussian density cancels in g_h / Z.
A bump left of the range (μ < 0) makes the curve concave, and one right of it (μ > 100) convex; the paper states
the reverse. The number of accounts of a combination is proportional to z ~ U{1 … 1000}, so some combinations are
sparse. Each account has one request.

The generator differs from the paper in four points:

- A response is clipped to 1. The sum has 101 terms and is divided by 100, so a flat slope would exceed 1.
- A curve is drawn again where Z underflows to 0, which 0.65 % of the draws do.
- Combinations are drawn until there are ``rows`` accounts; z alone never gives the 20,000 of the paper.
- Levels are 0, 5, …, 100 by default. At 101 levels the lowest has too few rows to learn a bias from.

``bias`` assigns higher incentives to less active accounts, as a platform does that wants to win them back. The
exposure table has the propensities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput
from shadowprice.tables import validate_tables

LEVELS = tuple(range(0, 101, 5))
STARTS = datetime(2026, 3, 2, tzinfo=UTC)
SHARES = (0.25, 0.25, 0.5)
"""Shares of rows: S1 trains on 5,000 of 20,000, stops on 5,000 and tests on 10,000."""
PARAMETERS = 3
"""Number of parameters of a curve: a, μ and δ."""
CENTER, WIDTH = (-50.0, 150.0), (0.0, 50.0)
"""Ranges of μ and δ."""


@dataclass(frozen=True, kw_only=True)
class PromotionOptions:
    """Options of the simulator.

    features           values of each categorical feature; S1 uses (2, 2, 2) and (3, 5, 7)
    rows               accounts, one request each
    levels             incentives, within 0 … 100
    bias               strength of the assignment's dependence on activity; 0 assigns at random
    lowest_share       of the accounts that get the lowest level, as a control group; None gives every level alike
    budget_per_request minor units an account may cost on average
    """

    features: Sequence[int] = (2, 2, 2)
    rows: int = 20_000
    levels: Sequence[int] = field(default=LEVELS)
    bias: float = 0.0
    lowest_share: float | None = None
    budget_per_request: float = 11.0

    def __post_init__(self) -> None:
        # A pipeline's parameters are JSON, where a whole number may come as 5.0.
        for name in ("features", "rows", "levels"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            require(np.array_equal(value, np.rint(value)), name, "must be whole")
            whole = value.astype(np.int64)
            object.__setattr__(self, name, tuple(whole.tolist()) if whole.ndim else int(whole))
        if not self.features or min(self.features) < 1:
            raise InvalidInput("needs at least one feature with at least one value", field="features")
        require(self.rows >= 1, "rows", "must be at least 1")
        if min(self.levels) < 0 or max(self.levels) > 100 or list(self.levels) != sorted(set(self.levels)):
            raise InvalidInput("must ascend within 0 … 100", field="levels")
        require(self.bias >= 0, "bias", "must not be negative")
        if self.lowest_share is not None and (self.bias or not 0 < self.lowest_share < 1 or len(self.levels) < 2):
            raise InvalidInput("must lie between 0 and 1, with several levels and without bias", field="lowest_share")


@dataclass(frozen=True, eq=False)
class Promotion:
    """A drawn promotion.

    frame       a training frame: account_id, c_1 …, level, response, propensity; in random order
    response    float64 (J, rows): the true curves
    levels      (J,)
    """

    frame: pd.DataFrame
    response: NDArray[np.float64]
    levels: tuple[int, ...]


def curves_at(unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Curves (101, n) over incentives 0 … 100 at points (n, 3) of the unit cube, on which their law is uniform.

    The axes are the quantiles of a, μ and δ. A curve whose Z underflows to 0 is NaN.
    """
    low, center, width = unit.T
    return rising(low, CENTER[0] + np.ptp(CENTER) * center, WIDTH[0] + np.ptp(WIDTH) * width)


def rising(low: NDArray[np.float64], center: NDArray[np.float64], width: NDArray[np.float64]) -> NDArray[np.float64]:
    """Curves (101, n) of S1's equations 18–20, clipped to 1; NaN where Z underflows to 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        slope = np.exp(-0.5 * ((np.arange(101)[:, None] - center) / width) ** 2)
        rise = np.cumsum(slope / slope.max(axis=0), axis=0) / 100
    return np.minimum(low + (1 - low) * rise, 1.0)


def draw_curves(combinations: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw curves (101, combinations) over incentives 0 … 100."""
    curves = np.full((101, combinations), np.nan)
    while (empty := np.isnan(curves[0])).any():
        curves[:, empty] = curves_at(random.random((int(empty.sum()), PARAMETERS)))
    return curves


def draw(options: PromotionOptions, seed: int = 0) -> Promotion:
    """Draw curves, accounts, levels and responses. O(rows · J)."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 0xD19A]))
    combinations = np.array(list(product(*(range(size) for size in options.features))))
    levels = np.asarray(options.levels, dtype=np.int64)
    curves = draw_curves(len(combinations), random)
    common = random.integers(1, 1001, len(combinations)).astype(float)
    kind = random.choice(len(combinations), options.rows, p=common / common.sum())
    response = curves[levels][:, kind]
    # Activity is the response without an incentive, standardized over combinations.
    active = (curves[0] - curves[0].mean()) / max(float(curves[0].std()), 1e-9)
    reach = np.linspace(-1.0, 1.0, levels.size)[:, None] if levels.size > 1 else np.zeros((1, 1))
    chance = np.exp(-options.bias * reach * active[kind])
    chance /= chance.sum(axis=0)
    if options.lowest_share is not None:
        chance[0], chance[1:] = options.lowest_share, (1 - options.lowest_share) / (levels.size - 1)
    level = (random.random(options.rows) > np.cumsum(chance, axis=0)).sum(axis=0).clip(max=levels.size - 1)
    rows = np.arange(options.rows)
    frame = pd.DataFrame(
        {
            "account_id": [f"p{row:06d}" for row in rows],
            **{f"c_{k + 1}": [f"v{value}" for value in combinations[kind, k]] for k in range(combinations.shape[1])},
            "level": level,
            "response": (random.random(options.rows) < response[level, rows]).astype(float),
            "propensity": chance[level, rows],
        }
    )
    return Promotion(frame, response, tuple(int(amount) for amount in levels))


def load(_data: str | None = None, *, seed: int = 0, **options: object) -> Dataset:
    """Draw a promotion as tables. ``options`` are the fields of :class:`PromotionOptions`."""
    chosen = PromotionOptions(**options)  # type: ignore[arg-type]
    drawn = draw(chosen, seed)
    frame, rows = drawn.frame, len(drawn.frame)
    names = [c for c in frame.columns if c.startswith("c_")]
    amount = np.asarray(drawn.levels)[frame["level"]]
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x71AE]))
    decided_at = pd.Timestamp(STARTS) + pd.to_timedelta(np.sort(random.integers(1, 86_400, rows)), unit="s")
    request_id = [f"trial-{account}" for account in frame["account_id"]]
    account = frame[["account_id", *names]].assign(side="customer", snapshot_ts=pd.Timestamp(STARTS))
    tables = validate_tables(
        {
            "account": account,
            "edge": pd.DataFrame(
                {"src": [], "dst": [], "relation": [], "weight": [], "ts": pd.to_datetime([], utc=True)}
            ),
            "offer": pd.DataFrame(
                {
                    "offer_id": [f"coupon-{level}" for level in drawn.levels],
                    "side": "customer",
                    "kind": "coupon",
                    "face_value": drawn.levels,
                }
            ),
            "exposure": pd.DataFrame(
                {
                    "request_id": request_id,
                    "account_id": frame["account_id"],
                    "side": "customer",
                    "offer_id": [f"coupon-{value}" for value in amount],
                    "decided_at": decided_at,
                    "propensity": frame["propensity"],
                    "policy_version": "trial" if not chosen.bias else "by-activity",
                    "exploration": True,
                }
            ),
            "outcome": pd.DataFrame(
                {
                    "request_id": request_id,
                    "observed_at": decided_at + pd.Timedelta(days=1),
                    "mature": True,
                    "cost_paid": amount.astype(np.int64),
                    "redeemed": frame["response"].astype("Int64"),
                }
            ),
            "campaign": campaign_table(
                "promotion",
                pd.Timestamp(STARTS) + pd.Timedelta(days=3),
                chosen.budget_per_request,
                form="per_account",
                basis="on_grant",
            ),
        }
    )
    return Dataset(
        name="promotion",
        tables=tables,
        split=Split(by="account", shares=SHARES),
        truth=pd.DataFrame(
            {
                "account_id": np.tile(frame["account_id"].to_numpy(), len(drawn.levels)),
                "side": "customer",
                "level": np.repeat(np.arange(len(drawn.levels)), rows),
                "response": drawn.response.ravel(),
            }
        ),
        notes={
            "source": "simulated: generated with known truth after S1, section 5",
            "features": " × ".join(str(size) for size in chosen.features),
            "assignment": "at random" if not chosen.bias else f"less active accounts get more, bias {chosen.bias:g}",
        },
    )
