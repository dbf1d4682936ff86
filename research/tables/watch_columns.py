"""False alarms and delay of the watch on the raw columns of accounts, on planted drifts."""

from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from research.table import Primary, Rows, Summary, Table
from research.tables.watch import DAILY, DAYS, SINCE, alarms
from shadowprice.watch.feature_drift import describe_columns, feature_drift

ACCOUNTS, RATE = 4000, 0.05
INDEX = "feature_drift"
TESTS = "tests of each column, read daily"
NULL: dict[str, dict[str, float]] = {"false alarms": {}, "false alarms, a move of 0.2": {"moved": 0.2}}
DRIFTS: dict[str, dict[str, float]] = {
    "column moved": {"moved": 0.6},
    "column lost": {"lost": 0.1},
    "other callers": {"callers": 1.0},
}


def account_columns(rng: np.random.Generator) -> pd.DataFrame:
    """Return a draw of the accounts: two numbers and a text."""
    return pd.DataFrame(
        {
            "account_id": np.arange(ACCOUNTS).astype(str),
            "x_age": rng.normal(size=ACCOUNTS),
            "x_visits": rng.poisson(2.0, ACCOUNTS).astype(float),
            "c_town": rng.choice(["north", "south", "west"], ACCOUNTS, p=[0.5, 0.3, 0.2]),
        }
    )


def first_alarms(
    rng: np.random.Generator, *, moved: float = 0.0, lost: float = 0.0, callers: float = 0.0
) -> dict[str, int]:
    """Return way → first day with an alarm, of daily runs; DAYS where there is none.

    After SINCE days ``x_age`` moves by so many standard deviations, so large a share of accounts loses it, or accounts
    ask in proportion to exp(callers · x_age). The watch reads the present columns of all accounts that asked.
    """
    columns = account_columns(rng)
    known = describe_columns(columns, np.ones(ACCOUNTS))
    late = columns.assign(x_age=np.where(rng.random(ACCOUNTS) < lost, np.nan, columns["x_age"] + moved))
    tilt = np.exp(callers * columns["x_age"].to_numpy())
    parts: list[np.ndarray] = []
    found = {INDEX: DAYS, TESTS: DAYS}
    for day in range(DAYS):
        parts.append(rng.choice(ACCOUNTS, DAILY, p=tilt / tilt.sum() if day >= SINCE else None))
        asked = (late if day >= SINCE else columns).iloc[np.concatenate(parts)]
        findings = feature_drift(asked, "customer", known, ACCOUNTS, rate=RATE)
        alarms = {INDEX: any(finding.alarm for finding in findings), TESTS: tested(asked, columns)}
        found |= {way: day for way, alarm in alarms.items() if alarm and found[way] == DAYS}
    return found


def tested(asked: pd.DataFrame, reference: pd.DataFrame) -> bool:
    """Return whether a test of any column rejects: Kolmogorov and Smirnov's, or that of independence for a text."""
    now, worst = asked.drop_duplicates("account_id"), 1.0
    for name in ("x_age", "x_visits"):
        worst = min(worst, stats.ks_2samp(now[name].dropna(), reference[name]).pvalue)
        if now[name].isna().any():
            return True
    towns = pd.concat([now["c_town"].value_counts(), reference["c_town"].value_counts()], axis=1).fillna(0)
    return bool(min(worst, stats.chi2_contingency(towns.to_numpy()).pvalue) < RATE / 3)


def run(seed: int, quick: bool) -> Rows:
    once = partial(first_alarms, np.random.default_rng(seed))
    return alarms(once, NULL, DRIFTS, (10, 5) if quick else (40, 20))


def reading(found: Summary) -> str:
    small = {way: found.cell(way, "false alarms, a move of 0.2").value for way in (INDEX, TESTS)}
    delay = found.cell(INDEX, "delay in days: other callers").value
    return (
        f"A column that moves by 0.2 standard deviations alarms the index in {small[INDEX]:.1%} of {DAYS} days' runs, "
        f"and tests that are read daily in {small[TESTS]:.1%}. Accounts that ask in proportion to e to the column are "
        f"found after {delay:.1f} days. A drift that is never found counts as {DAYS - SINCE} days."
    )


TABLE = Table(
    title="Watch on the columns of accounts: false alarms and delay",
    source="the population stability index of credit scoring",
    data=f"{DAYS} days of {DAILY} requests of {ACCOUNTS:,} accounts with three columns; one drifts from day {SINCE}: "
    "it moves by 0.6 standard deviations, a tenth of the accounts lose it, or accounts with a high value ask "
    "more; 40 runs a seed without and 20 with a drift; simulated",
    run=run,
    reading=reading,
    primary=Primary("false alarms, a move of 0.2", INDEX, TESTS, effect=0.2, spread=0.1),
    compare=[("false alarms", INDEX, TESTS), ("delay in days: other callers", INDEX, TESTS)],
    fewer_is_better=[*NULL, *(f"delay in days: {name}" for name in DRIFTS)],
    also=("false alarms", "delay in days: column moved", "delay in days: column lost"),
)
