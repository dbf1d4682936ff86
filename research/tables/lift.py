"""Coverage of the reported lift: shares that are raised, visits that depend on the arm, few groups, daily looks."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from shadowprice.arms import Arm, Experiment, treatment
from shadowprice.datasets.world import CUSTOMER_LEVELS, customer_response
from shadowprice.experiments import assign, lift
from shadowprice.experiments.assignment import assigned_in
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.lifts import daily_lift, lift_per_request
from shadowprice.experiments.periods import in_periods
from shadowprice.policy import Choices

DAYS, ACCOUNTS, ASKS, TRIALS, LOOKED_AT = 8, 600, 4, 100, 20
PRICE, EXPLORATION = 0.003, 0.05
"""Price of money of the policy, responses per cent, which gives some customers much and most little."""
LISTED, COVARIATE, SHARES = "week, per account", "week, per account, past as covariate", "week, no list of accounts"
MONEY, ALONE = "week, value per minor unit", "week, requests as independent"
RAISED, RAISED_REQUEST, POOLED = "raised share, per account", "raised share, per request", "raised share, days pooled"
VISITS, VISITS_REQUEST = "visits depend on the arm, per account", "visits depend on the arm, per request"
CLUSTERS, FEW_COVARIATES = "20 groups, per account", "40 accounts, 4 covariates"
ALWAYS, EACH = "every day, always-valid", "every day, each day's own interval"
COVERAGE, WIDTH, BIAS = "coverage of 95 %", "width, % of the effect", "bias, % of the effect"
MANY = 2_000
"""Accounts where an arm is raised, or where visits depend on it."""
NAMES = np.array([f"a{each}" for each in range(MANY)])
Found = Iterator[tuple[str, Effect, float]]
"""Name of a row, its estimate, and the truth."""


def arms(holdout: int, policy: int, salt: str) -> Experiment:
    shares = (Arm(name="holdout", kind="holdout", share=holdout), Arm(name="policy", kind="policy", share=policy))
    return Experiment(arms=shares, salt=salt)


def policy(strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, N) true response, and (J, N) probability of each level under the policy."""
    response = customer_response(strength)
    cost = np.asarray(CUSTOMER_LEVELS, dtype=np.float64)[:, None] * response
    ids = [str(each) for each in range(len(strength))]
    made = Choices(response, cost).decide([PRICE], 0.5, ids, EXPLORATION)
    return response, made.policy.propensities()


def truth() -> tuple[float, float]:
    """Incremental value and cost of a request in the population that accounts are drawn from."""
    response, given = policy(np.random.default_rng(10_000).normal(size=(200_000, 2)))
    paid = response * np.array(CUSTOMER_LEVELS)[:, None]
    return tuple(float(((given * each).sum(axis=0) - each[0]).mean()) for each in (response, paid))  # type: ignore[return-value]


def week(rng: np.random.Generator, test: Experiment) -> pd.DataFrame:
    """Requests of some days with arms by the salted hash, and outcomes."""
    strength = rng.normal(size=(ACCOUNTS, 2))
    response, given = policy(strength)
    past = rng.binomial(4, response[2]) / 4.0
    who = np.repeat(np.arange(ACCOUNTS), rng.poisson(rng.gamma(2.0, ASKS / 2, size=ACCOUNTS)))
    arm = treatment(test, NAMES[:ACCOUNTS].tolist(), EXPLORATION).arm[who]
    drawn = (rng.random(who.size) > np.cumsum(given, axis=0)[:, who]).sum(axis=0)
    level = np.where(arm == "holdout", 0, np.minimum(drawn, len(CUSTOMER_LEVELS) - 1))
    value = (rng.random(who.size) < response[level, who]).astype(float)
    return pd.DataFrame(
        {
            "account_id": NAMES[who],
            "request": np.arange(who.size),
            "arm": arm,
            "value": value,
            "cost": value * np.array(CUSTOMER_LEVELS)[level],
            "past": past[who],
            "day": np.sort(rng.integers(0, DAYS, who.size)),
        }
    )


def weekly(rng: np.random.Generator, salt: str, looks: bool = False) -> Found:
    """A campaign of some days, read once or every day; accounts ask when they like."""
    gain, paid = truth_of_world
    test, each = arms(2000, 8000, salt), ASKS
    rows = week(rng, test)
    names = NAMES[:ACCOUNTS]
    assigned = pd.DataFrame({"account_id": names, "arm": assign(test, names)})
    if looks:
        (daily,) = daily_lift(rows, "holdout", assigned, planned=DAYS)
        at, per_day = daily.value, gain * each / DAYS
        worst = int(np.argmin(np.minimum(per_day - at.low, at.high - per_day)))
        yield ALWAYS, effect(at.value[-1], at.low[worst], at.high[worst]), per_day
        single = [lift(rows[rows["day"] <= day], "holdout", assigned)[0].value for day in range(DAYS)]
        off = [abs(one.value - per_day * (day + 1)) / one.error for day, one in enumerate(single)]
        at_worst = int(np.argmax(off))
        one, scale = single[at_worst], at_worst + 1
        yield EACH, effect(single[-1].value / DAYS, one.low / scale, one.high / scale), per_day
        return
    past = rows.drop_duplicates("account_id")[["account_id", "past"]]
    known = assigned.merge(past, how="left")
    (found,) = lift(rows, "holdout", assigned)
    yield LISTED, found.value, gain * each
    yield MONEY, found.per_money, gain / paid
    yield COVARIATE, lift(rows, "holdout", known, columns=Columns(covariates=("past",)))[0].value, gain * each
    asked = rows["account_id"].nunique()
    numbers = pd.DataFrame({"arm": ["holdout", "policy"], "number": [0.2 * asked, 0.8 * asked]})
    yield SHARES, lift(rows, "holdout", numbers)[0].value, gain * ASKS * ACCOUNTS / asked
    yield ALONE, lift_per_request(rows, "holdout", columns=Columns(unit="request"))[0].value, gain


def raised(rng: np.random.Generator, salt: str) -> Found:
    """The policy grows from a tenth to seven tenths in the middle, while responses rise from day to day."""
    before = arms(2000, 1000, salt)
    test, gain = before.raised("policy", 7000), 0.02
    who = rng.integers(0, MANY, ASKS * MANY)
    day = rng.integers(0, DAYS, who.size)
    arm = np.where(day < DAYS // 2, assign(before, NAMES)[who], assign(test, NAMES)[who])
    chance = rng.uniform(0.5, 1.5, MANY)[who] * (0.05 + 0.02 * day) + gain * (arm != "holdout")
    rows = requests(who, arm, rng.random(who.size) < chance).assign(day=day)
    found, periods = in_periods(rows, test, Columns())
    assigned = assigned_in(pd.DataFrame({"account_id": NAMES}), periods, Columns())
    yield RAISED, lift(found, "holdout", assigned)[0].value, gain * ASKS
    yield RAISED_REQUEST, lift_per_request(found, "holdout")[0].value, gain
    yield POOLED, lift_per_request(rows[rows["arm"] != "unassigned"], "holdout")[0].value, gain


def visiting(rng: np.random.Generator, salt: str) -> Found:
    """The policy brings accounts that respond less often than those who come anyway."""
    test = arms(3000, 7000, salt)
    arm = assign(test, NAMES)
    treated, keen = arm == "policy", rng.random(MANY) < 0.4
    visits = rng.poisson(np.where(keen, 2.0, 0.2 + 0.4 * treated))
    who = np.repeat(np.arange(MANY), visits)
    chance = np.where(keen, 0.3, 0.1)[who] + 0.02 * treated[who]
    rows = requests(who, arm[who], rng.random(who.size) < chance)
    gain = 0.4 * 2.0 * 0.02 + 0.6 * (0.6 * 0.12 - 0.2 * 0.1)
    assigned = pd.DataFrame({"account_id": NAMES, "arm": arm})
    yield VISITS, lift(rows, "holdout", assigned)[0].value, gain
    yield VISITS_REQUEST, lift_per_request(rows, "holdout")[0].value, gain / (0.4 * 2.0 + 0.6 * 0.2)


def grouped(rng: np.random.Generator, _: str) -> Found:
    """20 groups of 10 to 90 accounts, about 7 of them in the holdout, whose accounts depend on each other."""
    size = rng.integers(10, 91, 20)
    group = np.repeat(np.arange(20), size)
    treated = rng.permutation(20) < 13
    arm = np.where(treated, "policy", "holdout")[group]
    visits = rng.poisson(1.5, group.size)
    who = np.repeat(np.arange(group.size), visits)
    chance = np.clip(rng.normal(0.25, 0.05, 20), 0.05, 0.6)[group][who] + 0.1 * treated[group][who]
    columns = Columns(unit="group")
    names = np.array([f"g{each}" for each in group])
    rows = requests(who, arm[who], rng.random(who.size) < chance).assign(group=names[who])
    assigned = pd.DataFrame({"group": names, "arm": arm})
    yield CLUSTERS, lift(rows, "holdout", assigned, columns=columns)[0].value, 0.15


def narrowed(rng: np.random.Generator, _: str) -> Found:
    """40 accounts with four covariates, the most that are allowed."""
    past = rng.normal(size=(4, 40))
    arm = np.where(rng.permutation(40) < 20, "policy", "holdout")
    value = past.sum(axis=0) + rng.normal(size=40) + 0.5 * (arm == "policy")
    names = NAMES[:40]
    rows = pd.DataFrame({"account_id": names, "arm": arm, "value": value, "cost": 0.0})
    assigned = pd.DataFrame({"account_id": names, "arm": arm} | {f"x{row}": each for row, each in enumerate(past)})
    columns = Columns(covariates=("x0", "x1", "x2", "x3"))
    rows = rows.merge(assigned.drop(columns="arm"))
    yield FEW_COVARIATES, lift(rows, "holdout", assigned, columns=columns)[0].value, 0.5


def looked_at(rng: np.random.Generator, salt: str) -> Found:
    """The campaign of :func:`weekly`, read every day."""
    yield from weekly(rng, salt, looks=True)


SCENARIOS: dict[Callable[[np.random.Generator, str], Found], int] = {
    weekly: TRIALS,
    raised: TRIALS,
    visiting: TRIALS,
    grouped: TRIALS,
    narrowed: TRIALS,
    looked_at: LOOKED_AT,
}
"""Each kind of campaign, and the number of its draws at one seed."""


def requests(who: NDArray[np.intp], arm: NDArray[np.str_], hit: NDArray[np.bool_]) -> pd.DataFrame:
    """Requests of some accounts, whose responses cost money outside the holdout."""
    value = hit.astype(float)
    names = np.array([f"a{each}" for each in range(int(who.max(initial=0)) + 1)])
    paid = 50.0 * value * (arm != "holdout")
    return pd.DataFrame({"account_id": names[who], "arm": arm, "value": value, "cost": paid})


def effect(value: float, low: float, high: float) -> Effect:
    """An estimate of which the table needs value and limits alone."""
    return Effect(float(value), 0.0, float(low), float(high), 0.95, 0.0, 0.0)


truth_of_world = truth()


def run(seed: int, quick: bool) -> Rows:
    """Campaigns of each kind, each with the same truth. O(trials · requests)."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for scenario, trials in SCENARIOS.items():
        for number in range(2 if quick else trials):
            for name, one, wanted in scenario(rng, f"{scenario.__name__}-{seed}-{number}"):
                width, away = 100 * (one.high - one.low) / wanted, 100 * (one.value / wanted - 1)
                found.setdefault(name, []).append((one.low <= wanted <= one.high, width, away))
    return {
        name: dict(zip((COVERAGE, WIDTH, BIAS), np.mean(np.array(trials, dtype=float), axis=0).tolist(), strict=True))
        for name, trials in found.items()
    }


def reading(found: Summary) -> str:
    coverage = {row: found.cell(row, COVERAGE).value for row in found.rows}
    sound = [LISTED, COVARIATE, MONEY, RAISED, RAISED_REQUEST, VISITS, CLUSTERS, FEW_COVARIATES]
    lowest, highest = min(coverage[row] for row in sound), max(coverage[row] for row in sound)
    return (
        f"The reported intervals cover the truth in {lowest:.1%} to {highest:.1%} of the campaigns with a list of "
        f"accounts, pooled days in {coverage[POOLED]:.1%} where a share is raised, and the difference per request in "
        f"{coverage[VISITS_REQUEST]:.1%} where visits depend on it. Read "
        f"every day, always-valid intervals cover in {coverage[ALWAYS]:.1%}, those of each day in {coverage[EACH]:.1%}."
    )


TABLE = Table(
    title="Coverage of the reported lift",
    source="the estimators of the job `lift`",
    data=f"{TRIALS} campaigns of each kind a seed, {LOOKED_AT} of those that are read every day; {ACCOUNTS} "
    f"customers of `world`, {ASKS} requests each a week, judged by the truth of 200,000; {MANY:,} accounts "
    "where a share is raised or visits depend on the arm (the policy brings accounts that respond less often); "
    "groups of 10 to 90 accounts; simulated",
    run=run,
    reading=reading,
    primary=Primary(COVERAGE, RAISED, POOLED, effect=0.05, spread=0.05),
    compare=[(COVERAGE, VISITS, VISITS_REQUEST), (COVERAGE, LISTED, ALONE), (COVERAGE, ALWAYS, EACH)],
    fewer_is_better=[WIDTH],
    seeds=20,
)
