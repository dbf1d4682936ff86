"""Days of a population that drifts: the model is trained again on what it served, or stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from research.table import Primary, Rows, Summary, Table
from shadowprice.arms import CANARY
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.datasets.world import CUSTOMER_LEVELS, HOURLY_SHAPE, drifted_response
from shadowprice.datasets.world.responses import MOVE
from shadowprice.evaluation.policy.gate import Requirements
from shadowprice.experiments.trial_stage import Stage, judge_stage
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import Comparison, evaluate
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.canary import Canary
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.loop import ORACLE, play, true_value
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.pacing.replay.run import Replay
from shadowprice.responses import make
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.inputs import Inputs

ACCOUNTS, DAILY, TRIAL = 1_000, 3_000, 8_000
CENTS = 40
"""Budget of a request.

Of 16, 24, 40 and 60 cents, on seeds 0 to 2: at 40 a frozen model loses more to a week of drift than to its own errors.
"""
LIMITS = Requirements(value_margin=0.2, newest_days=7.0)
"""Limits of the gate that the guide gives for retrains."""
REPLICATIONS = 100
STAGES, RATE, MOST_DAYS = (Stage(100, -0.2), Stage(1000, 0.0)), 0.05, 28
"""Stages of the canary, probability of a false promotion and days of a stage, as the job ``promote`` has them."""
START = datetime(2026, 3, 2, tzinfo=UTC)
FROZEN = "frozen, explores nothing"
EVERY, GATED, TRIED = "every retrain taken", "retrains that pass the gate", "gate, then canary"
WAYS = (EVERY, GATED, TRIED, FROZEN, ORACLE)
GAIN, TAKEN = "more than frozen, %", "models taken"


@dataclass(frozen=True)
class Scenario:
    """One kind of drift, and the loop that runs on it.

    cents        drift of a day: every customer wants an incentive that is so much higher
    days         of the campaign
    every        days between two retrains
    recent       days whose served rows are trained on; 0: all, and the rows of the trial
    exploration  share of requests that explore
    """

    name: str
    cents: float
    days: int
    every: int
    recent: int
    exploration: float


SCENARIOS = (
    Scenario("no drift", 0.0, 28, 7, 0, 0.01),
    Scenario("1.25 cents a day", 1.25, 28, 7, 0, 0.01),
    NAMED := Scenario("2.5 cents a day", 2.5, 28, 7, 0, 0.01),
    Scenario("2.5 cents a day, 10 % explored", 2.5, 28, 7, 0, 0.1),
    Scenario("5 cents a day, one week", 5.0, 7, 1, 3, 0.1),
)


@dataclass(frozen=True)
class Town:
    """Customers with their traits, and the noisy view of them that a model has."""

    names: np.ndarray
    strength: np.ndarray
    features: pd.DataFrame

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Town:
        strength = rng.normal(size=(ACCOUNTS, 2))
        names = np.array([f"c{each}" for each in range(ACCOUNTS)])
        seen = strength + rng.normal(0, 0.5, strength.shape)
        return cls(names, strength, pd.DataFrame({"account_id": names, "x_0": seen[:, 0], "x_1": seen[:, 1]}))

    def population(self, response: np.ndarray) -> dict[Side, NamedCurves]:
        return {"customer": NamedCurves(self.names, Curves(np.array(CUSTOMER_LEVELS), response.astype(np.float32)))}

    def rows(self, account: np.ndarray, level: np.ndarray, response: np.ndarray, **more: Any) -> pd.DataFrame:
        frame = self.features.iloc[account].reset_index(drop=True)
        return frame.assign(level=level, response=response, **more)


@dataclass(frozen=True)
class Judged:
    """A model as the gate reads it."""

    model: ResponseModel
    personal: bool = True

    def curves(self, _: object, rows: Mapping[Side, pd.DataFrame]) -> dict[Side, Curves]:
        return {side: self.model.curve(frame) for side, frame in rows.items()}


def fitted(rows: pd.DataFrame, seed: int) -> ResponseModel:
    names = ["account_id", "x_0", "x_1", "level", "response"]
    return make("isotonic_lr", levels=list(CUSTOMER_LEVELS), seed=seed).fit(rows[names])


@dataclass
class Loop:
    """A loop that takes every retrain, those that pass the gate, or those that a canary shows to be better besides."""

    way: str
    scenario: Scenario
    town: Town
    trial: pd.DataFrame
    seed: int
    current: ResponseModel
    log: list[pd.DataFrame] = field(default_factory=list)
    taken: int = 0
    canary: Canary | None = None
    tried: ResponseModel | None = None
    stage_rows: list[pd.DataFrame] = field(default_factory=list)

    def day(self, setting: Setting) -> float:
        """Serve a day; return its true value."""
        played = play(replace(setting, model=self._curves(self.current)))
        value, outcomes = true_value(played), played.outcomes
        if self.canary is None or self.tried is None:
            self.log.append(self._served(played))
            return value
        # Each model is priced as if it decided for everybody, so a canary's units are those of its own replay.
        other = play(replace(setting, model=self._curves(self.tried)))
        takes = self.canary.takes(outcomes.account_id.tolist())
        mean = np.where(takes, other.outcomes.expected_response, outcomes.expected_response)
        cost = np.where(takes, other.outcomes.cost, outcomes.cost)
        response = np.where(takes, other.outcomes.response, outcomes.response)
        price = np.mean([each.record.prices[setting.campaign.budget.name] for _, each in played.prices])
        rows = {"account_id": outcomes.account_id, "arm": np.where(takes, CANARY, "rest"), "value": response}
        net = response - price * cost
        self.stage_rows.append(pd.DataFrame({**rows, "cost": cost, "net": net, "day": len(self.stage_rows)}))
        own, tried = self._served(played), self._served(other)
        self.log.append(pd.concat([own[~takes], tried[takes]], ignore_index=True))
        return float(mean.sum())

    def night(self, day: int, campaign: Campaign) -> None:
        """Train again where it is time, and judge."""
        if self.canary is not None:
            self._judge()
            return
        if (day + 1) % self.scenario.every:
            return
        rows = pd.concat(self.log[-self.scenario.recent :] if self.scenario.recent else [self.trial, *self.log])
        candidate = fitted(rows[rows["split"] == "train"], self.seed)
        if self.way != EVERY and not passes(candidate, self.current, pd.concat([self.trial, *self.log]), campaign):
            return
        if self.way == TRIED:
            self.tried, self.stage_rows = candidate, []
            self.canary = Canary(
                campaign="loop",
                model_version=f"m{day}",
                incumbent="m",
                stage=0,
                share=STAGES[0].share,
                since=START,
                prices={},
            )
            return
        self.current, self.taken = candidate, self.taken + 1

    def _judge(self) -> None:
        assert self.canary is not None
        rows, stage = pd.concat(self.stage_rows, ignore_index=True), STAGES[self.canary.stage]
        found = judge_stage(rows, stage, level=1 - RATE / len(STAGES), most_days=MOST_DAYS)
        if found.step == "wait":
            return
        self.stage_rows = []
        if found.step == "grow" and self.canary.stage + 1 < len(STAGES):
            share = STAGES[self.canary.stage + 1].share
            self.canary = replace(self.canary, stage=self.canary.stage + 1, share=share)
            return
        if found.step == "grow" and self.tried is not None:
            self.current, self.taken = self.tried, self.taken + 1
        self.canary = self.tried = None

    def _curves(self, model: ResponseModel) -> dict[Side, NamedCurves]:
        return self.town.population(model.curve(self.town.features).response)

    def _served(self, played: Replay) -> pd.DataFrame:
        outcomes = played.outcomes
        who = np.array([int(each[1:]) for each in outcomes.account_id])
        at = START.timestamp() + 86_400.0 * len(self.log)
        more = {"propensity": played.answers.propensity, "snapshot_at": at, "split": split(self.town, self.seed)[who]}
        return self.town.rows(who, np.maximum(outcomes.level, 0), outcomes.response, **more)


def split(town: Town, seed: int) -> np.ndarray:
    """Split of each customer: a fifth are held out, for the gate."""
    return np.where(np.random.default_rng([seed, 1]).random(town.names.size) < 0.2, "test", "train")


def passes(candidate: ResponseModel, current: ResponseModel, rows: pd.DataFrame, campaign: Campaign) -> bool:
    """Judge a model by the gate of the product, on the customers that no model is trained on."""
    data = TrainingSet(
        rows={"customer": rows.assign(partner_id=None, weight=1.0).reset_index(drop=True)},
        serving={},
        inputs=Inputs(),
        levels={"customer": CUSTOMER_LEVELS},
        context={"customer": ()},
    )
    found = evaluate(
        Judged(candidate),  # type: ignore[arg-type]
        data,
        window=CampaignWindow(campaign, requests={"customer": float(DAILY)}),
        against=Comparison(incumbent=Judged(current)),  # type: ignore[arg-type]
        limits=LIMITS,
        replications=REPLICATIONS,
    )
    return found.gate.accepted


def setting(town: Town, scenario: Scenario, day: int, model: np.ndarray, seed: int, exploration: float) -> Setting:
    """A day, with its true curves and the model that is frozen."""
    campaign = Campaign(
        name="loop",
        sides={"customer": Terms(levels=CUSTOMER_LEVELS)},
        budget=Budget(limit=CENTS * DAILY),
        starts_at=START + timedelta(days=day),
        exploration=exploration,
    )
    accounts: dict[Side, Accounts] = {"customer": Accounts(town.names, np.ones(ACCOUNTS))}
    forecast = Forecast.of(campaign, {"customer": Profile(HOURLY_SHAPE / HOURLY_SHAPE.sum(), float(DAILY))})
    truth = town.population(drifted_response(town.strength, day * scenario.cents / MOVE))
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, accounts, seed=seed * 100 + day),
        outcomes=OutcomeModel(campaign, truth, seed=seed * 100 + day),
        model=town.population(model),
        forecast=forecast,
        history=past_traffic(accounts, ACCOUNTS, seed=seed),
    )


def measured(scenario: Scenario, seed: int, ways: tuple[str, ...] = WAYS) -> Rows:
    """Serve the same days under each way to decide, with the same luck."""
    rng = np.random.default_rng(seed)
    town = Town.draw(rng)
    account, level = rng.integers(0, ACCOUNTS, TRIAL), rng.integers(0, len(CUSTOMER_LEVELS), TRIAL)
    redeemed = (rng.random(TRIAL) < drifted_response(town.strength, 0)[level, account]).astype(float)
    more = {"propensity": 1 / len(CUSTOMER_LEVELS), "snapshot_at": START.timestamp() - 86_400.0}
    trial = town.rows(account, level, redeemed, **more, split=split(town, seed)[account])
    frozen = fitted(trial[trial["split"] == "train"], seed)
    curves = frozen.curve(town.features).response
    loops = {way: Loop(way, scenario, town, trial, seed, frozen) for way in (EVERY, GATED, TRIED) if way in ways}
    value = dict.fromkeys(ways, 0.0)
    for day in range(scenario.days):
        explored, still = (setting(town, scenario, day, curves, seed, each) for each in (scenario.exploration, 0.0))
        plain = {FROZEN: still, ORACLE: replace(still, model=still.outcomes.truth)}
        for way in ways:
            if way in loops:
                own = loops[way].day(explored)
                if day + 1 < scenario.days:
                    loops[way].night(day, explored.campaign)
            else:
                own = true_value(play(plain[way]))
            value[way] += own
    return {
        f"{scenario.name}: {way}": {
            GAIN: 100 * (value[way] / value[FROZEN] - 1),
            TAKEN: float(loops[way].taken) if way in loops else 0.0,
        }
        for way in ways
    }


def run(seed: int, quick: bool) -> Rows:
    found: dict[str, Mapping[str, float]] = {}
    for scenario in SCENARIOS:
        days = 2 if quick else scenario.days
        found |= measured(replace(scenario, days=days, every=1 if quick else scenario.every), seed)
    return found


def reading(found: Summary) -> str:
    pays = [scenario.name for scenario in SCENARIOS if found.cell(f"{scenario.name}: {GATED}", GAIN).low > 0]
    known = [found.cell(f"{scenario.name}: {ORACLE}", GAIN).value for scenario in SCENARIOS]
    return (
        f"The true curves bring {min(known):.2f} to {max(known):.2f} % more than a frozen model that explores nothing. "
        f"The loop with its gate pays in {'; '.join(pays) or 'none of these'}."
    )


TABLE = Table(
    title="The closed loop on a population that drifts",
    source="the loop of `retrain`: serve, train on what was served, gate, canary, solve",
    data=f"{ACCOUNTS:,} customers of `world`, a trial of {TRIAL:,} offers, about {DAILY:,} requests a day, {CENTS} "
    "cents of budget a request; simulated. The incentive that customers want rises by so many cents a day for 28 "
    "days; a model a week on all rows, 1 % explored. Last rows: one week, a model every night of the last three days, "
    "10 % explored",
    run=run,
    reading=reading,
    primary=Primary(GAIN, f"{NAMED.name}: {GATED}", f"{NAMED.name}: {FROZEN}", effect=1.5, spread=1.3),
    compare=[
        (GAIN, f"{scenario.name}: {way}", f"{scenario.name}: {FROZEN}")
        for scenario in SCENARIOS
        for way in (EVERY, GATED, TRIED)
        if (scenario, way) != (NAMED, GATED)
    ],
    also=("2.5 cents a day: every retrain taken", "2.5 cents a day: gate, then canary"),
)
