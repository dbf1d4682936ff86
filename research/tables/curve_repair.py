"""Effect of curve repair on trees, on randomized and on confounded levels, with known truth."""

import numpy as np
import pandas as pd

from research.table import Primary, Rows, Summary, Table
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.curves import Curves
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.uniform import best_flat
from shadowprice.responses import make
from shadowprice.responses.repair.model import RepairSteps, SideRepair

LEVELS = (100, 500, 1000, 2000, 3000)
ALIKE, TRUTH = "best flat mixture", "true curves"
EFFECT = np.array([0.0, 0.8, 1.1, 1.6, 1.9])
SHOPS = 100


def draw(rows: int, rng: np.random.Generator, confounded: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Requests of customers at shops, and the truth (J, rows). Shops whose customers respond little give more."""
    shop = rng.integers(0, SHOPS, rows)
    trait = rng.normal(size=rows)
    taste = np.linspace(0.0, -4.0, SHOPS)[shop] + 0.7 * trait
    truth = 1 / (1 + np.exp(-(taste + EFFECT[:, None])))
    center = np.linspace(0, 4, SHOPS)[shop]
    weight = np.exp(-1.2 * np.abs(np.arange(5)[:, None] - center)) if confounded else np.ones((5, rows))
    level = (rng.uniform(size=rows) > np.cumsum(weight / weight.sum(axis=0), axis=0)).sum(axis=0)
    response = (rng.uniform(size=rows) < truth[level, np.arange(rows)]).astype(float)
    frame = pd.DataFrame(
        {
            "account_id": [f"u{i}" for i in range(rows)],
            "partner_id": [f"s{k}" for k in shop],
            "level": level,
            "response": response,
            "x_trait": trait,
            "x_noise": rng.normal(size=rows),
        }
    )
    return frame, truth


def true_value(curves: Curves, truth: np.ndarray) -> float:
    """True responses when the budget is spent by these curves, over the best that can be had."""
    return spent(curves.response, truth) / spent(truth, truth)


def flat_value(truth: np.ndarray) -> float:
    """True responses of the best mixture of levels that is the same for all, over the best that can be had."""
    mean = truth.mean(axis=1)
    found = best_flat({"customer": mean}, {"customer": np.asarray(LEVELS) * mean}, budget(truth) / truth.shape[1])
    return float(found.value * truth.shape[1] / spent(truth, truth))


def budget(truth: np.ndarray) -> float:
    """Minor units for all requests."""
    return 0.4 * float((LEVELS[2] * truth[2]).sum())


def spent(response: np.ndarray, truth: np.ndarray) -> float:
    """True responses when the budget is spent by curves (J, N); a policy that overspends ends where the money does."""
    levels = np.asarray(LEVELS, dtype=np.float64)
    limit = Resource.total("budget", on_response(levels), budget(truth))
    chosen = solve(Problem(np.ascontiguousarray(response, dtype=np.float32), [limit])).level
    rows = np.arange(truth.shape[1])
    value, cost = truth[chosen, rows].sum(), (levels[chosen] * truth[chosen, rows]).sum()
    return float(value * min(1.0, budget(truth) / cost))


def run(seed: int, quick: bool) -> Rows:
    size = 3_000 if quick else 8_000
    rows: dict[str, dict[str, float]] = {}
    for design in ("randomized", "confounded"):
        rng = np.random.default_rng(seed)
        seen, held_out = (draw(size, rng, design == "confounded")[0] for _ in range(2))
        asked, truth = draw(size, rng, design == "confounded")
        rows[f"{design}, {ALIKE}"] = {"value over best": flat_value(truth)}
        rows[f"{design}, {TRUTH}"] = {"value over best": 1.0}
        for level in ("free", "monotone"):
            model = make("gbdt", levels=LEVELS, seed=seed, level=level, partner=False).fit(seen)
            for name in ("none", "monotone", "pooled+monotone", "by_level+monotone", "effect+monotone"):
                repair = SideRepair.fit(
                    RepairSteps.named(name), model.curve, held_out, seen, ("partner_id",), "customer"
                )
                rows[f"{design}, {level} + {name}"] = judge(repair.apply(model.curve(asked), asked), asked, truth)
    return rows


def judge(curves: Curves, frame: pd.DataFrame, truth: np.ndarray) -> dict[str, float]:
    """Error of the curves against the truth, shape, calibration, and what they earn."""
    level, y = frame["level"].to_numpy(), frame["response"].to_numpy()
    p = np.clip(curves.response[level, np.arange(y.size)].astype(np.float64), 1e-6, 1 - 1e-6)
    return {
        "error of curve": float(np.sqrt(np.mean((curves.response - truth) ** 2))),
        "reversed pairs": metrics.rpr(curves.response),
        "ECE by level": metrics.ece(y, p, groups=level),
        "log loss": metrics.logloss(y, p),
        "value over best": true_value(curves, truth),
    }


def reading(found: Summary) -> str:
    free = "randomized, free + none"
    worse = "confounded, monotone + none"
    best = "confounded, monotone + effect+monotone"
    shares = [
        f"{found.share('value over best', row, f'{design}, {ALIKE}', f'{design}, {TRUTH}'):.0%}"
        for row in (free, "randomized, free + effect+monotone", worse, best)
        for design in (row.partition(",")[0],)
    ]
    return (
        f"Of the attainable gain, free trees reach {shares[0]} on randomized levels, and {shares[1]} with the effect "
        f"step; monotone trees reach {shares[2]} on confounded levels, and {shares[3]} with it. On randomized levels "
        f"free trees reverse {found.cell(free, 'reversed pairs').value:.1%} of pairs; projection removes all of them."
    )


PAIRS = (
    ("randomized, free + monotone", "randomized, free + none"),
    ("randomized, monotone + pooled+monotone", "randomized, monotone + none"),
    ("randomized, monotone + effect+monotone", "randomized, monotone + none"),
    ("confounded, monotone + effect+monotone", "confounded, monotone + none"),
    ("confounded, monotone + by_level+monotone", "confounded, monotone + none"),
)

PRIMARY = ("value over best", "confounded, monotone + effect+monotone", "confounded, monotone + none")

TABLE = Table(
    title="Curve repair on known truth",
    source="the effect of the steps of curve repair",
    data="three generated logs of 8,000 requests at 100 shops, to fit, to repair and to judge; levels are random or "
    "higher at shops whose customers respond less; trees do not see the shop; simulated",
    run=run,
    reading=reading,
    primary=Primary(*PRIMARY, effect=0.05, spread=0.03),
    compare=[
        (column, a, b)
        for column in ("error of curve", "value over best")
        for a, b in PAIRS
        if (column, a, b) != PRIMARY
    ],
    fewer_is_better=["error of curve", "reversed pairs", "ECE by level", "log loss"],
    also=("randomized, free + monotone", "confounded, free + none", "confounded, free + effect+monotone"),
)
