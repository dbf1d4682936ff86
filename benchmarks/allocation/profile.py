"""Time of each step of the engine, without the steps that it calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.allocation.demands import instance
from benchmarks.allocation.instances import problem
from benchmarks.cells import Cells
from shadowprice.allocation import Problem, solve, solve_demands

STEPS = {
    "shadowprice.allocation.population.population.kernel.gather": "drawing samples",
    "shadowprice.allocation.population.population._usable": "checking the numbers of the sample",
    "shadowprice.allocation.population.spend_curve.kernel.climb": "climbing hulls",
    "shadowprice.allocation.population.spend_curve.kernel.select": "selecting edges",
    "shadowprice.allocation.one_budget.pricing.Points.of": "points in float64",
    "shadowprice.allocation.one_budget.search.interval": "the sample's interval",
    "shadowprice.allocation.one_budget.search._exact": "the exact price",
    "shadowprice.allocation.one_budget.pricing.best_levels": "ties",
    "shadowprice.allocation.one_budget.pricing.solve_population": "the certificate",
    "shadowprice.allocation.several_budgets.partition.estimate": "the estimate of K prices",
    "shadowprice.allocation.several_budgets.partition.optimum": "the simplex on the active set",
    "shadowprice.allocation.several_budgets.sample.optimum": "the simplex on a sample",
    "shadowprice.allocation.several_budgets.partition.approach": "Newton steps inside",
    "shadowprice.allocation.solvers.partition.rows_of": "patterns of membership",
    "shadowprice.allocation.solvers.partition.certified": "the certificate",
    "shadowprice.allocation.several_budgets.certificate.whole_levels": "whole levels",
    "shadowprice.allocation.exact_sizes.exact.place": "the passes",
    "shadowprice.allocation.exact_sizes.exact.sampled": "samples",
    "shadowprice.allocation.exact_sizes.exact.exact_sizes": "shortest paths",
    "shadowprice.allocation.exact_sizes.exact.supporting": "prices in the middle",
    "shadowprice.allocation.exact_sizes.bracket.place": "passes over samples",
    "shadowprice.allocation.exact_sizes.bracket.exact_sizes": "shortest paths of samples",
    "shadowprice.allocation.exact_sizes.exact.SizedProblem.of": "checking the numbers",
}
"""Function → its name here. Passes over accounts are named by the accounts that they read."""

PASSES = (
    "shadowprice.allocation.population.population.kernel.score",
    "shadowprice.allocation.one_budget.search.kernel.score",
)


class Clock:
    """Seconds by step; a step that calls another stops counting meanwhile."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._open: list[tuple[str, float]] = []

    def step(self, function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """The function, counted under ``name(*arguments)``."""

        @wraps(function)
        def counted(*arguments: Any, **options: Any) -> Any:
            self.begin(name(*arguments))
            try:
                return function(*arguments, **options)
            finally:
                self.end()

        return counted

    def begin(self, name: str) -> None:
        """Start a step."""
        now = time.process_time()
        if self._open:
            self._count(*self._open[-1], now)
        self._open.append((name, now))

    def end(self) -> None:
        """End the step begun last."""
        now = time.process_time()
        self._count(*self._open.pop(), now)
        if self._open:
            self._open[-1] = (self._open[-1][0], now)

    def _count(self, name: str, since: float, now: float) -> None:
        self.parts[name] = self.parts.get(name, 0.0) + now - since


@contextmanager
def watched(clock: Clock, accounts: int) -> Iterator[None]:
    """Every step counted by ``clock`` while this lasts."""
    kept: list[tuple[Any, str, Any]] = []
    names = {path: (lambda *_, text=text: text) for path, text in STEPS.items()}
    names |= dict.fromkeys(
        PASSES, lambda tile, *_: "the pass over all accounts" if tile.accounts == accounts else "smaller passes"
    )
    for path, name in names.items():
        owner, last = _owner(path)
        if any(owner is there and last == known for there, known, _ in kept):
            continue
        before = vars(owner)[last]
        kept.append((owner, last, before))
        made = clock.step(getattr(owner, last), name)
        setattr(owner, last, staticmethod(made) if isinstance(before, classmethod) else made)
    try:
        yield
    finally:
        for owner, last, before in kept:
            setattr(owner, last, before)


def _owner(path: str) -> tuple[Any, str]:
    """The module or class a function is an attribute of, and its name there."""
    parts = path.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise LookupError(path)


def measured(instance_name: str, accounts: int, work: Callable[[], Any], patience: float) -> dict[str, Any]:
    """The parts of the fastest of many runs."""
    work()
    best: Clock | None = None
    begun, runs = time.perf_counter(), 0
    with watched(clock := Clock(), accounts):
        while runs < 3 or time.perf_counter() - begun < patience:
            clock.parts = {}
            clock.begin("Python between the steps")
            work()
            clock.end()
            runs += 1
            if best is None or sum(clock.parts.values()) < sum(best.parts.values()):
                best = Clock()
                best.parts = clock.parts
    assert best is not None
    return {
        "instance": instance_name,
        "accounts": accounts,
        "seconds": sum(best.parts.values()),
        "parts": best.parts,
    }


def budgets(kind: str, accounts: int, near: bool, patience: float) -> dict[str, Any]:
    """One or eight budgets, from scratch or from a price 1 % off."""
    given = problem(kind, accounts)
    near_price = float(solve(given).prices[0]) * 1.01 if near else None
    name = {"one": "one budget", "eight": "eight budgets"}[kind] + (", warm start 1 % off" if near else "")
    return measured(name, accounts, lambda: solve(Problem(given.value, given.resources), near=near_price), patience)


def segments(kind: str, accounts: int, patience: float) -> dict[str, Any]:
    """Exact sizes of eight segments."""
    value, demand, allowed = instance(accounts, 8, kind)
    return measured(f"exact sizes, {kind}", accounts, lambda: solve_demands(value, demand, allowed), patience)


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """The sizes that goals are set for."""
    patience = 0.3 if quick else 3.0
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000)
    works = [(f"one {n}", partial(budgets, "one", n, False, patience)) for n in sizes]
    works += [(f"near {n}", partial(budgets, "one", n, True, patience)) for n in sizes[-2:]]
    works += [(f"eight {n}", partial(budgets, "eight", n, False, patience)) for n in sizes[1:3]]
    works += [
        (f"sizes {kind}", partial(segments, kind, 20_000 if quick else 200_000, patience))
        for kind in ("uniform", "funds")
    ]
    rows = []
    for name, work in works:
        row = cells.of(name, work)
        rows.append(row)
        parts = sorted(row["parts"].items(), key=lambda part: -part[1])
        told = ", ".join(
            f"{step} {np.round(1e3 * share, 3):g}" for step, share in parts if share > 0.02 * row["seconds"]
        )
        print(f"{row['instance']}, {row['accounts']:,}: {row['seconds'] * 1e3:.3f} ms: {told}", flush=True)
    return {"rows": rows}
