"""A week of a generated company, through the services: what was spent or placed, and its true value."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operations.common.solver import Solver
from operations.common.workspace import CAMPAIGN
from serving.client.client import LedgerClient
from serving.local.launch import Deployment, Services, free_port, launch
from serving.local.replay import ServiceDay
from shadowprice.allocation import Problem, Resource, on_response, solve, solve_demands
from shadowprice.campaign import Campaign, Side, demands
from shadowprice.curves import Curves
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import mean
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.run import Replay, System, replay
from shadowprice.pacing.spend import MetricsSpend

SIDE: Side = "customer"
HOURS = 7 * 24
OVERRIDE = json.dumps({"reason": "a company of few rows", "by": "benchmarks"})
"""Whether a model of so few rows passes the gate is not the matter here."""
DRAWS = 20
"""Random placings of a delivery, whose mean is compared."""
BUSY = 0.3
"""Share of the accounts of a delivery that all come on the third day, of which no forecast knows."""
AGAIN = 0.2
"""Share of the accounts of a delivery that come a second time."""


@dataclass(frozen=True, eq=False)
class Week:
    """A played week.

    campaign  its terms; day, its requests; played, what was answered and paid
    level     (n,), what each request was given; negative: nothing
    response  (J, n) true mean response to each level of each request
    value     (J, n) true value of each level for each request
    totals    of the ledger at the end
    """

    campaign: Campaign
    day: Day
    played: Replay
    level: NDArray[np.int64]
    response: NDArray[np.float64]
    value: NDArray[np.float64]
    totals: Mapping[str, Any]

    def once(self) -> Week:
        """Return the first request of each account."""
        first = np.sort(np.unique(self.day.account_id, return_index=True)[1])
        columns = {name: getattr(self, name)[..., first] for name in ("level", "response", "value")}
        return replace(self, day=self.day.take(first), **columns)

    @cached_property
    def own(self) -> NDArray[np.float64]:
        """(n,): true value of what each request was given; 0 where it was given nothing."""
        rows = np.arange(self.level.size)
        return np.where(self.level >= 0, self.value[np.maximum(self.level, 0), rows], 0.0)

    def over(self, other: NDArray[np.float64]) -> Estimate:
        """Total true value above another policy's (n,), with its interval over accounts."""
        return mean(self.own - other, cluster=self.day.account_id).times(other.size)


def command(module: str, *words: str) -> None:
    """Run a command of the project in a process of its own; its output is shown where it fails."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", module, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def play(
    run: Path,
    day: Day,
    truth: NamedCurves,
    value: NDArray[np.float64],
    *,
    moments: Sequence[float],
    look: Callable[[Services], None] | None = None,
) -> Week:
    """Play a window through predictor and ledger, as processes, with a new price at each moment.

    Args:
        run: folder with campaign, model and an opening price.
        day: its requests.
        truth: mean response of each account to each level, which outcomes are drawn from.
        value: (J, N), true value of each level for the accounts of ``truth``.
        moments: of prices, hours since the opening.
        look: called with the services and a console at the end of the window.
    """
    solver, traffic = Solver(run), Traffic.load(run)
    campaign = solver.campaign
    outcomes = OutcomeModel(campaign, {SIDE: truth})
    with launch(Deployment.of_run(run, run / CAMPAIGN), console_port=free_port() if look else None) as services:
        with closing(ServiceDay(services, run, solver, traffic, MetricsSpend(services.metrics_urls))) as service:
            system = System(service.decide, service.settle, service.resolve)
            played = replay(day, campaign, outcomes, system, moments=moments, progress=False)
        with LedgerClient(services.ledger_url, campaign.name) as ledger:
            totals = ledger.totals()
        if look:
            look(services)
    place = {name: row for row, name in enumerate(truth.account_id.tolist())}
    rows = [place[name] for name in day.account_id.tolist()]
    level = played.outcomes.level.astype(np.int64)
    return Week(campaign, day, played, level, truth.curves.response[:, rows].astype(np.float64), value[:, rows], totals)


def voucher_rivals(week: Week) -> dict[str, NDArray[np.float64]]:
    """Values (n,) of other policies on the same requests, by true means.

    ``lp`` is the linear program that knows the truth and all requests; ``random`` gives any voucher until the budget
    is spent.
    """
    levels = np.array(week.campaign.terms(SIDE).levels, dtype=np.int64)
    limit = week.campaign.budget.limit
    best = solve(Problem(week.response.astype(np.float32), [Resource.total("b", on_response(levels), limit)]))
    cost = float((levels[:, None] * week.response).mean(axis=0).sum())
    return {
        "lp": week.value[best.level, np.arange(best.level.size)],
        "random": min(1.0, limit / cost) * week.value.mean(axis=0),
    }


def arrivals(accounts: NDArray[np.str_], hours: int, seed: int) -> Day:
    """Requests of a delivery: every account comes once, many of them on one day, and some come again."""
    random = np.random.default_rng(seed)
    first = np.where(random.random(accounts.size) < BUSY, 48 + 24 * random.random(accounts.size), 0)
    first = np.where(first > 0, first, hours * random.random(accounts.size))
    again = np.flatnonzero(random.random(accounts.size) < AGAIN)
    later = first[again] + (hours - first[again]) * random.random(again.size)
    who, at = np.concatenate([accounts, accounts[again]]), np.concatenate([first, later])
    order = np.argsort(at, kind="stable")
    names = np.array([f"week-{number:06d}" for number in range(at.size)])
    return Day(names, who[order], np.full(at.size, SIDE), np.minimum(at[order], np.nextafter(hours, 0)), hours)


def place_rivals(week: Week, allowed: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Values (n,) of other plans for the accounts of a delivery, by true means; ``week`` has each account :meth:`once`.

    ``lp`` is the plan that knows the truth; ``random`` the mean of random placings that keep sizes and risk limits.
    """
    random, sizes, rows = np.random.default_rng(0), demands(week.campaign.segments), np.arange(week.value.shape[1])
    best = solve_demands(week.value.astype(np.float32), sizes, allowed).segment
    drawn = [
        solve_demands(random.random(week.value.shape, dtype=np.float32), sizes, allowed).segment for _ in range(DRAWS)
    ]
    return {"lp": week.value[best, rows], "random": np.mean([week.value[plan, rows] for plan in drawn], axis=0)}


def named(accounts: NDArray[np.str_], levels: Sequence[int], response: NDArray[np.float64]) -> NamedCurves:
    """Return true curves (J, N) of named accounts."""
    return NamedCurves(accounts, Curves(np.asarray(levels), response.astype(np.float32)))
