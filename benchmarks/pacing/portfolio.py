"""Moves of budget between five campaigns of different size and response, each hour of a simulated day.

Value is the share of the joint optimum in hindsight: one linear program over the requests of all campaigns under the
same total, floors and caps. Everything that moves is decided by the job's own functions. In the hard day one campaign's
ledger is dead for some hours, and gets no request answered meanwhile, and another one has no traffic at all.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.cells import Cells
from serving.portfolio.look import Member, stand
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.allocation.portfolio.curve import ValueCurve
from shadowprice.allocation.portfolio.moves import plan_moves
from shadowprice.allocation.portfolio.split import split
from shadowprice.campaign import Budget, Campaign, PortfolioTerms, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.questions import InHand
from shadowprice.pacing.what_if import WhatIf

LEVELS = np.array([0, 50, 100, 200, 400])
ACCOUNTS = 400
REQUESTS = {"spring": 12_000, "merchants": 6_000, "lapsed": 3_000, "students": 9_000, "kiosk": 1_500}
REACTION = {"spring": 0.8, "merchants": 2.0, "lapsed": 3.0, "students": 0.5, "kiosk": 1.5}
"""Scale of the responses, value per redemption alike."""
TOTAL = 1_000_000
"""Minor units of all campaigns; each begins with a fifth."""
HOURS = 24
DEAD, SILENT = "lapsed", "kiosk"
DEAD_HOURS = range(6, 12)
SEEDS = 20
CURVES = 10_000
POINTS = 16
START = datetime(2026, 3, 2, tzinfo=UTC)
Real = NDArray[np.float64]


@dataclass
class Run:
    """A campaign in a simulated day; ``arrivals`` are the accounts of its requests by hour."""

    campaign: Campaign
    response: NDArray[np.float32]
    arrivals: list[NDArray[np.intp]]
    limit: int
    spent: int = 0
    value: float = 0.0

    @property
    def requests(self) -> int:
        return sum(map(len, self.arrivals))

    def alive(self, hour: int, hard: bool) -> bool:
        return not (hard and self.campaign.name == DEAD and hour in DEAD_HOURS)

    def solver(self, hour: int) -> WhatIf | None:
        """Return the solver of the rest of the day, by the traffic that it has on average."""
        ahead = self.requests / HOURS * (HOURS - hour)
        if not ahead:
            return None
        own = replace(self.campaign, budget=Budget(limit=self.limit), portfolio=None)
        curves = {"customer": Curves(levels=LEVELS, response=self.response)}
        return WhatIf(own, curves, {"customer": ahead}, InHand(spent=self.spent), rows=0)  # type: ignore[arg-type]

    def answer(self, hour: int, solver: WhatIf) -> None:
        """Decide the requests of an hour at the price that is solved at its begin; the hard stop holds."""
        price = solver.ask().price.value
        response = self.response[:, self.arrivals[hour]].astype(np.float64)
        level = (response - price * LEVELS[:, None]).argmax(axis=0)
        for place, chosen in enumerate(level.tolist()):
            given = chosen if self.spent + LEVELS[chosen] <= self.limit else 0
            self.spent += int(LEVELS[given])
            self.value += float(response[given, place])


def made(seed: int, hard: bool) -> dict[str, Run]:
    """Return the campaigns of a day."""
    rng = np.random.default_rng(seed)
    runs = {}
    for name, requests in REQUESTS.items():
        share = 1 - np.exp(-LEVELS[:, None] / rng.uniform(60, 400, ACCOUNTS))
        response = (REACTION[name] * (0.05 + rng.beta(1, 4, ACCOUNTS) * share)).astype(np.float32)
        terms = PortfolioTerms(name="company", floor=20_000, cap=TOTAL // 2, largest_move=TOTAL // 5, curve_error=0.01)
        campaign = Campaign(
            name=name,
            sides={"customer": Terms(levels=tuple(LEVELS.tolist()), cost_basis="on_grant")},
            budget=Budget(limit=TOTAL // len(REQUESTS)),
            starts_at=START,
            portfolio=terms,
        )
        each = 0 if hard and name == SILENT else requests / HOURS
        arrivals = [rng.integers(0, ACCOUNTS, rng.poisson(each)) for _ in range(HOURS)]
        runs[name] = Run(campaign, response, arrivals, int(campaign.budget.limit))
    return runs


def day(seed: int, hard: bool, moving: bool) -> dict[str, float]:
    """Run a day, and return its value, the joint optimum, money and moves.

    Raises:
        AssertionError: money was overspent, granted twice or lost.
    """
    runs = made(seed, hard)
    moves = 0
    for hour in range(HOURS):
        solvers = {name: run.solver(hour) for name, run in runs.items()}
        if moving:
            moves += _move(hour, hard, runs, solvers)
            solvers = {name: run.solver(hour) for name, run in runs.items()}
        for name, run in runs.items():
            solver = solvers[name]
            if solver is not None and run.alive(hour, hard):
                run.answer(hour, solver)
        assert sum(run.limit for run in runs.values()) == TOTAL
        assert all(run.spent <= run.limit for run in runs.values())
    return {
        "value": sum(run.value for run in runs.values()),
        "optimum": _optimum(runs, hard),
        "spent": sum(run.spent for run in runs.values()),
        "moves": moves,
    }


def _move(hour: int, hard: bool, runs: Mapping[str, Run], solvers: Mapping[str, WhatIf | None]) -> int:
    members = {}
    for name, run in runs.items():
        terms = run.campaign.portfolio
        assert terms is not None
        if run.alive(hour, hard):
            give = max(min(terms.largest_move, run.limit - run.spent, run.limit - terms.floor), 0)
            take = max(min(terms.largest_move, terms.cap - run.limit), 0)
            own = solvers[name]
            members[name] = Member(campaign=run.campaign, limit=run.limit, may_give=give, may_take=take, solver=own)
    planned = plan_moves(stand(members))
    for source, target, amount in planned:
        runs[source.name].limit -= amount
        runs[target.name].limit += amount
    return len(planned)


def _optimum(runs: Mapping[str, Run], hard: bool) -> float:
    """Return the optimum of the requests that could be answered, all campaigns together."""
    blocks, owners = [], []
    for place, run in enumerate(runs.values()):
        answered = [seen for hour, seen in enumerate(run.arrivals) if run.alive(hour, hard)]
        blocks.append(run.response[:, np.concatenate(answered)])
        owners.append(np.full(blocks[-1].shape[1], place))
    owner, cost = np.concatenate(owners), LEVELS.astype(np.float64)
    # The floor of a campaign without requests can be spent by no other.
    kept = sum(run.campaign.portfolio.floor for run in runs.values() if run.campaign.portfolio and not run.requests)
    limits = [Resource.total("all", cost, float(TOTAL - kept))]
    for place, (name, run) in enumerate(runs.items()):
        terms = run.campaign.portfolio
        assert terms is not None
        if (owner == place).any():
            limits.append(Resource.total(name, cost, float(terms.cap), members=owner == place))
    return solve(Problem(np.concatenate(blocks, axis=1), limits)).primal


def priced(curves: int) -> float:
    """Return the seconds in which one price for many curves is found."""
    rng = np.random.default_rng(0)
    budget = np.linspace(0, 1000, POINTS)
    scale = rng.uniform(1, 5, curves)
    known = [ValueCurve.of(budget, each * np.sqrt(budget + 1), each / (2 * np.sqrt(budget + 1))) for each in scale]
    floors, caps = np.zeros(curves), np.full(curves, 1000.0)
    begin = time.perf_counter()
    split(known, 200.0 * curves, floors, caps)
    return time.perf_counter() - begin


def run(cells: Cells, *, quick: bool) -> dict[str, Any]:
    """Measure both days with moves and with fixed budgets, and the price of many curves."""
    seeds = range(2 if quick else SEEDS)
    for hard in (False, True):
        rows = {
            moving: [cells.of(f"{hard} {moving} {seed}", partial(day, seed, hard, moving)) for seed in seeds]
            for moving in (True, False)
        }
        share, fixed = (np.array([row["value"] / row["optimum"] for row in rows[moving]]) for moving in (True, False))
        gain = 100 * (share / fixed - 1)
        half = stats.t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
        print(
            f"{'one killed, one silent' if hard else 'all run'}: {100 * share.mean():.2f} % of the joint optimum "
            f"(least {100 * share.min():.2f}), fixed budgets {100 * fixed.mean():.2f} %, "
            f"gain {gain.mean():+.2f} % [{gain.mean() - half:+.2f}, {gain.mean() + half:+.2f}], "
            f"{np.mean([row['moves'] for row in rows[True]]):.1f} moves a day; nothing overspent",
            flush=True,
        )
    count = CURVES // 10 if quick else CURVES
    seconds = cells.of(f"curves {count}", lambda: min(priced(count) for _ in range(3)))
    print(f"{count:,} curves of {POINTS} points: {seconds:.2f} s", flush=True)
    return {}
