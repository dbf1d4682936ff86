"""Verdicts of a canary whose policy is equal, better or worse, looked at every day."""

import numpy as np
import pandas as pd

from research.table import Primary, Rows, Summary, Table
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.arms import CANARY
from shadowprice.datasets.world import MERCHANT_LEVELS, merchant_response
from shadowprice.experiments.trial_stage import Stage, StageVerdict, judge_days

STAGES = (Stage(100, -0.2), Stage(1000, 0.0))
RATE, MOST_DAYS = 0.05, 28
ACCOUNTS, DAILY = 100_000, 8_000
TRIALS = {"equal": 10, "better by 2 %": 3, "worse by 2 %": 3}
"""Trials of a seed; a false promotion is rare, so equal policies get more."""
SCRAMBLED = 0.5
"""Share of the accounts that the incumbent gives a random level; the others get the best."""
GAINS = {"equal": 0.0, "better by 2 %": 0.02, "worse by 2 %": -0.02}
PROMOTED, BACK, DAYS, SPENT = "promoted", "rolled back", "days to the verdict", "money spent by the canary, % of budget"


class Market:
    """Merchants of the world with their true response, and the true best level of each within a budget."""

    def __init__(self, accounts: int, rng: np.random.Generator) -> None:
        self.response = merchant_response(rng.normal(size=(accounts, 2)))
        self.cost = np.asarray(MERCHANT_LEVELS, dtype=np.float64)
        limit = 0.4 * self.cost.max() * accounts
        found = solve(Problem(self.response.astype(np.float32), [Resource.total("budget", self.cost, limit)]))
        self.best, self.price = found.level, float(found.prices[0])
        self.random = rng.integers(0, self.cost.size, accounts)
        self.place = rng.random(accounts)

    def level(self, scrambled: float) -> np.ndarray:
        """Level of each account where that share of them gets a random one."""
        return np.where(self.place < scrambled, self.random, self.best)

    def net(self, level: np.ndarray) -> float:
        """True net value per request."""
        return float((self.response[level, np.arange(level.size)] - self.price * self.cost[level]).mean())

    def policy(self, gain: float) -> np.ndarray:
        """Levels whose true net value is the incumbent's and ``gain`` of its value more."""
        incumbent = self.level(SCRAMBLED)
        wanted = self.net(incumbent) + gain * float(self.response[incumbent, np.arange(incumbent.size)].mean())
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.net(self.level(middle)) > wanted else (low, middle)
        return self.level(low)


def trial(market: Market, levels: np.ndarray, rng: np.random.Generator, daily: int) -> tuple[str, int, float]:
    """Serve one canary to its end; return the verdict, its days, and the canary's spend over the budget."""
    accounts = levels.size
    incumbent, place = market.level(SCRAMBLED), rng.random(accounts)
    days, spent = 0, 0.0
    verdict: StageVerdict | None = None
    for stage in STAGES:
        account = rng.integers(0, accounts, daily * MOST_DAYS)
        on_trial = place[account] < stage.share / 10_000
        level = np.where(on_trial, levels[account], incumbent[account])
        before = np.maximum(rng.poisson(6.0 * np.exp(0.3 * rng.normal(size=account.size))), 1)
        value = rng.poisson(market.response[level, account] * before) / before
        cost = market.cost[level]
        rows = pd.DataFrame(
            {
                "account_id": account,
                "arm": np.where(on_trial, CANARY, "policy"),
                "value": value,
                "cost": cost,
                "net": value - market.price * cost,
                "day": np.arange(account.size) // daily,
            }
        )
        # The first days alone give the same verdicts as all days, sooner.
        for most in (4, 14, MOST_DAYS):
            some = rows[rows["day"] < most]
            verdicts = judge_days(some, stage, level=1 - RATE / len(STAGES), most_days=MOST_DAYS)
            verdict = next((each for each in verdicts if each.step != "wait"), None)
            if verdict is not None:
                break
        assert verdict is not None
        days += verdict.days
        spent += float(cost[on_trial & (rows["day"] < verdict.days).to_numpy()].sum())
        if verdict.step == "roll back":
            break
    assert verdict is not None
    budget = 0.4 * market.cost.max() * daily * MOST_DAYS * len(STAGES)
    return verdict.reason if verdict.step == "roll back" else verdict.step, days, spent / budget


def run(seed: int, quick: bool) -> Rows:
    """Canaries of one market. O(trials · days · requests)."""
    rng = np.random.default_rng(seed)
    market = Market(ACCOUNTS, rng)
    found = {}
    for name, gain in GAINS.items():
        levels = market.policy(gain) if gain else market.level(SCRAMBLED)
        ends = [trial(market, levels, rng, DAILY) for _ in range(2 if quick else TRIALS[name])]
        found[name] = {
            PROMOTED: float(np.mean([end == "grow" for end, _, _ in ends])),
            BACK: float(np.mean([end != "grow" for end, _, _ in ends])),
            "found worse": float(np.mean(["worse" in end for end, _, _ in ends])),
            DAYS: float(np.mean([days for _, days, _ in ends])),
            SPENT: 100.0 * float(np.mean([spent for _, _, spent in ends])),
        }
    return found


def reading(found: Summary) -> str:
    promoted = {row: found.cell(row, PROMOTED) for row in found.rows}
    spent = max(found.cell(row, SPENT).value for row in found.rows)
    worse = found.cell("worse by 2 %", "found worse").value
    return (
        f"Equal canaries are promoted in {promoted['equal'].value:.1%} of the trials (the rule allows "
        f"{RATE / len(STAGES) / 2:.2%}), better ones in {promoted['better by 2 %'].value:.0%} and worse ones in "
        f"{promoted['worse by 2 %'].value:.0%}; {worse:.0%} of the worse are found so, the others end undecided. "
        f"A canary spends {spent:.1f} % of the budget at most; at most 10 % are at risk."
    )


TABLE = Table(
    title="A canary: false and true promotions with daily looks",
    source="the rule of the job `promote`, stages of 1 % and 10 %",
    data=f"{ACCOUNTS:,} merchants with the true response of `world`, {DAILY:,} requests a day, at most {MOST_DAYS} "
    f"days a stage; {sum(TRIALS.values())} trials a seed, {TRIALS['equal']} of equal policies; simulated",
    run=run,
    reading=reading,
    primary=Primary(PROMOTED, "better by 2 %", "equal", effect=0.5, spread=0.2),
    compare=[(PROMOTED, "worse by 2 %", "better by 2 %")],
    seeds=20,
    also=("days to the verdict",),
)
