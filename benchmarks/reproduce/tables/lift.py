"""Coverage of the reported lift of a campaign of seven days, read once and every day."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Primary, Rows, Table
from shadowprice.arms import Arm, Experiment, treatment
from shadowprice.datasets.world import CUSTOMER_LEVELS, customer_response
from shadowprice.decision import decide
from shadowprice.experiments import lift
from shadowprice.experiments.lifts import Columns, daily_lift

DAYS, ACCOUNTS, REQUESTS, TRIALS = 7, 3_000, 12_000, 10
PRICE, EXPLORATION = 0.003, 0.05
"""Price of money of the policy, responses per cent, which gives some customers much and most little."""
CLUSTERED, COVARIATE, ALONE = "by account", "by account, with the past as covariate", "requests as independent"
ALWAYS, EACH = "every day, always-valid", "every day, each day's own interval"
COVERAGE, WIDTH, BIAS = "coverage of 95 %", "width, % of the lift", "bias, % of the lift"


def policy(strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, N) true response, and (J, N) probability of each level under the policy."""
    response = customer_response(strength)
    cost = np.asarray(CUSTOMER_LEVELS, dtype=np.float64)[:, None] * response
    ids = [str(each) for each in range(len(strength))]
    made = decide(response, cost, [PRICE], 0.5, ids, exploration=EXPLORATION)
    return response, made.policy.propensities()


def truth() -> float:
    """Lift per request in the population that accounts are drawn from."""
    response, given = policy(np.random.default_rng(10_000).normal(size=(200_000, 2)))
    return float(((given * response).sum(axis=0) - response[0]).mean())


def week(rng: np.random.Generator, salt: str) -> pd.DataFrame:
    """Requests of seven days with arms by the salted hash, and outcomes."""
    test = Experiment(
        arms=(Arm(name="holdout", kind="holdout", share=2000), Arm(name="policy", kind="policy", share=8000)), salt=salt
    )
    names = np.array([f"a{each}" for each in range(ACCOUNTS)])
    strength = rng.normal(size=(ACCOUNTS, 2))
    response, given = policy(strength)
    past = rng.binomial(4, response[2]) / 4.0
    activity = rng.gamma(2.0, size=ACCOUNTS)
    who = rng.choice(ACCOUNTS, REQUESTS, p=activity / activity.sum())
    arm = treatment(test, names.tolist(), EXPLORATION).arm[who]
    drawn = (rng.random(REQUESTS) > np.cumsum(given, axis=0)[:, who]).sum(axis=0)
    level = np.where(arm == "holdout", 0, np.minimum(drawn, len(CUSTOMER_LEVELS) - 1))
    value = (rng.random(REQUESTS) < response[level, who]).astype(float)
    return pd.DataFrame(
        {
            "account_id": names[who],
            "request": np.arange(REQUESTS),
            "arm": arm,
            "value": value,
            "cost": value * np.array(CUSTOMER_LEVELS)[level],
            "past": past[who],
            "day": np.sort(rng.integers(0, DAYS, REQUESTS)),
        }
    )


def run(seed: int, quick: bool) -> Rows:
    """Campaigns of seven days, each with the same truth. O(trials · days · requests)."""
    rng, wanted = np.random.default_rng(seed), truth()
    found: dict[str, list[tuple[bool, float, float]]] = {}

    def add(name: str, covered: bool, width: float, value: float) -> None:
        found.setdefault(name, []).append((covered, 100 * width / wanted, 100 * (value / wanted - 1)))

    for number in range(2 if quick else TRIALS):
        rows = week(rng, f"{seed}-{number}")
        for name, columns in (
            (CLUSTERED, Columns()),
            (COVARIATE, Columns(covariates=("past",))),
            (ALONE, Columns(unit="request")),
        ):
            one = lift(rows, "holdout", columns=columns)[0].value
            add(name, one.low <= wanted <= one.high, one.high - one.low, one.value)
        (daily,) = daily_lift(rows, "holdout", planned=DAYS)
        at = daily.value
        add(ALWAYS, bool(((at.low <= wanted) & (wanted <= at.high)).all()), at.high[-1] - at.low[-1], at.value[-1])
        each = [lift(rows[rows["day"] <= day], "holdout")[0].value for day in range(DAYS)]
        last = each[-1]
        add(EACH, all(one.low <= wanted <= one.high for one in each), last.high - last.low, last.value)
    return {
        name: dict(zip((COVERAGE, WIDTH, BIAS), np.mean(np.array(trials, dtype=float), axis=0).tolist(), strict=True))
        for name, trials in found.items()
    }


def reading(found: Summary) -> str:
    """State the outcome in words, computed from the summary."""
    coverage = {row: found.cell(row, COVERAGE).value for row in found.rows}
    return (
        f"The lift after seven days covers the truth in {coverage[CLUSTERED]:.1%} of the campaigns, with the past as "
        f"covariate in {coverage[COVARIATE]:.1%}; requests taken as independent in {coverage[ALONE]:.1%}. Read every "
        f"day, always-valid intervals cover it on all days in {coverage[ALWAYS]:.1%}, and those of each day in "
        f"{coverage[EACH]:.1%}."
    )


TABLE = Table(
    title="Coverage of the reported lift of seven days",
    source="no table of the papers; the estimators of the job `lift`",
    data=f"campaigns of {DAYS} days, {ACCOUNTS:,} customers of `world` and {REQUESTS:,} requests; a fifth of them in "
    f"a holdout; {TRIALS} campaigns a seed; the truth is that of 200,000 customers; simulated",
    run=run,
    reading=reading,
    primary=Primary(COVERAGE, CLUSTERED, ALONE, effect=0.05, spread=0.1),
    compare=[(COVERAGE, ALWAYS, EACH)],
    fewer_is_better=[WIDTH],
    seeds=20,
)
