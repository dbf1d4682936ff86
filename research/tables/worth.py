"""Coverage of the intervals of what personalizing is worth, on files in the shape of three real trials."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.trials import Shape, TrialFiles, draw
from research.table import Primary, Rows, Summary, Table
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.campaign import Side
from shadowprice.evaluation import Estimate
from shadowprice.evaluation.policy.flat_before import flat_before
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.judged import Judged, Stage
from shadowprice.evaluation.policy.worth import Worth, worth
from shadowprice.policy import Choices

Array = NDArray[np.float64]
Parts = Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""Rows that a policy is learned from, and those that judge it."""

SHAPES: tuple[Shape, ...] = ("bonus", "gift", "email")
DRAWS = 10
SHARES = (0.0, 0.5, 1.0, 1.5, 2.0)
EDGES = (0.34, 0.6, 0.85, 1.0)
REQUESTS: Mapping[Side, float] = {"customer": 1000.0}
LIMIT = 0.3
"""Budget, as a share of the mean cost of the dearest level."""
RIDGE = 30.0
VALUE, LOWEST, FLAT, AREA = "policy less lowest level", "area over it", "policy less best flat", "area over flat"
NOTHING = "0 in the interval over flat, no effect"
SEQUENCE, FOLDS = "in sequence", "in folds"


def features(people: pd.DataFrame) -> Array:
    """Columns (n, P) of unit scale with an intercept; the first column of the table is the name."""
    columns = [np.ones(len(people))]
    for name in people.columns[1:]:
        column = people[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(((column - column.mean()) / column.std()).to_numpy(dtype=np.float64))
        else:
            columns += [(column == entry).to_numpy(dtype=np.float64) for entry in sorted(column.unique())[1:]]
    return np.column_stack(columns)


def fit(x: Array, level: NDArray[np.int64], y: Array, levels: int) -> Callable[[Array], Array]:
    """Fit a ridge regression of the response at each level; returns features (n, P) → curves (J, n)."""
    penalty = RIDGE * np.diag(np.r_[0.0, np.ones(x.shape[1] - 1)])
    weights = np.stack(
        [
            np.linalg.solve(x[level == j].T @ x[level == j] + penalty, x[level == j].T @ y[level == j])
            for j in range(levels)
        ]
    )
    return lambda rows: np.clip(weights @ rows.T, 1e-4, 1.0)


def in_sequence(accounts: int, rng: np.random.Generator) -> Parts:
    """Parts that judge one after the other; each policy learns from all parts before."""
    place = rng.random(accounts)
    return [(place < low, (place >= low) & (place < high)) for low, high in pairwise(EDGES)]


def in_folds(accounts: int, rng: np.random.Generator) -> Parts:
    """Three folds, each of which is judged by a policy of the other two."""
    fold = rng.permutation(accounts) % 3
    return [(fold != k, fold == k) for k in range(3)]


def estimate(trial: TrialFiles, parts: Parts) -> Worth:
    """Worth of the policies of :func:`fit`; an arm without an amount costs one unit for each message."""
    x, level, y = features(trial.people), trial.level, trial.response.astype(np.float64)
    levels, paid = len(trial.shares), np.array(trial.levels or (0.0, 1.0, 1.0))

    def cost(response: Array) -> Array:
        return paid[:, None] * (response if trial.levels else np.ones_like(response))

    def rows(mine: NDArray[np.bool_], expected: Array | None = None) -> RandomizedRows:
        own = level[mine]
        return RandomizedRows(
            level=own,
            value=y[mine],
            cost=paid[own] * (y[mine] if trial.levels else 1.0),
            propensity=trial.shares[own],
            account=np.flatnonzero(mine),
            expected_value=expected,
            expected_cost=None if expected is None else cost(expected),
        )

    limit = LIMIT * cost(trial.truth).max(axis=0).mean()
    stages = []
    for learned, judging in parts:
        held_out = learned & (np.arange(y.size) % 5 == 0)
        model = fit(x[learned & ~held_out], level[learned & ~held_out], y[learned & ~held_out], levels)
        before, own = model(x[held_out]), model(x[judging])
        chosen, above = [], []
        for share in SHARES:
            money = Resource.total("money", cost(before), max(share * limit, 1e-9) * before.shape[1])
            found = solve(Problem(before.astype(np.float32), [money]))
            ids = np.flatnonzero(judging)
            at = found.prices, found.tie_share
            chosen.append(Choices(own, cost(own)).decide(*at, ids).level)
            tried = Choices(before, cost(before)).decide(*at, np.flatnonzero(held_out)).level
            above.append(_spent(rows(held_out, before), tried))
        flat = flat_before({"customer": rows(learned)}, {"customer": levels}, REQUESTS, np.array(above))
        truth = trial.truth[:, judging]
        judged = Judged(trial=rows(judging, own), chosen=np.stack(chosen), truth=(truth, cost(truth)))
        stages.append(Stage(rows={"customer": judged}, flat=flat))
    return worth(stages, REQUESTS, SHARES, limit)


def _spent(rows: RandomizedRows, level: NDArray[np.int32]) -> float:
    """Cost of all requests, doubly robust; the lowest level of these trials is free."""
    given, expected, at = np.asarray(rows.level), np.asarray(rows.expected_cost), np.arange(level.size)
    weight = (given == level) / np.asarray(rows.propensity)
    return REQUESTS["customer"] * float(
        (expected[level, at] + weight * (np.asarray(rows.cost) - expected[given, at])).mean()
    )


def covered(found: Worth) -> dict[str, bool]:
    """Tell whether each interval holds the truth at the campaign's budget and over all budgets."""
    now = found.at(1.0)
    return {
        VALUE: _inside(now.lowest, now.true_lowest),
        LOWEST: _inside(found.lowest, found.true_lowest),
        FLAT: _inside(now.flat, now.true_flat),
        AREA: _inside(found.flat, found.true_flat),
    }


def _inside(found: Estimate, truth: float) -> bool:
    return bool(found.low <= truth <= found.high)


def run(seed: int, quick: bool) -> Rows:
    ways = {SEQUENCE: in_sequence, FOLDS: in_folds}
    found: dict[str, dict[str, list[bool]]] = {}
    for shape in SHAPES:
        for number in range(2 if quick else DRAWS):
            at = DRAWS * seed + number
            accounts = 2000 if quick else 0
            effective, without = (draw(shape, seed=at, accounts=accounts, effect=effect) for effect in (1.0, 0.0))
            for way, deal in ways.items():
                if way == FOLDS and number % 2:
                    continue
                rng = np.random.default_rng([at, SHAPES.index(shape)])
                cells = found.setdefault(f"{shape}, {way}", {})
                for name, held in covered(estimate(effective, deal(effective.level.size, rng))).items():
                    cells.setdefault(name, []).append(held)
                none = estimate(without, deal(without.level.size, rng)).at(1.0).flat
                cells.setdefault(NOTHING, []).append(_inside(none, 0.0))
    of_all: Mapping[str, dict[str, float]] = {
        row: {name: float(np.mean(cell)) for name, cell in cells.items()} for row, cells in found.items()
    }
    names = next(iter(of_all.values()))
    return {
        **of_all,
        **{
            f"all, {way}": {
                name: float(np.mean([of_all[f"{shape}, {way}"][name] for shape in SHAPES])) for name in names
            }
            for way in ways
        },
    }


def reading(found: Summary) -> str:
    told = {
        way: [found.cell(f"{shape}, {way}", name).value for shape in SHAPES for name in (VALUE, LOWEST, FLAT, AREA)]
        for way in (SEQUENCE, FOLDS)
    }
    nothing = [found.cell(f"{shape}, {SEQUENCE}", NOTHING).value for shape in SHAPES]
    return (
        f"Policies that are judged in sequence have intervals that cover the truth in {min(told[SEQUENCE]):.1%} to "
        f"{max(told[SEQUENCE]):.1%} of the draws, and without any effect the difference to flat holds 0 in "
        f"{min(nothing):.1%} or more. Folds that learn from each other use all rows, and cover in "
        f"{min(told[FOLDS]):.1%} to {max(told[FOLDS]):.1%}: where one fold's luck decides the policy of another, their "
        "errors go together, and the interval does not know it."
    )


TABLE = Table(
    title="Coverage of what personalizing is worth",
    source="Wager (2024), Sequential validation of treatment heterogeneity",
    data="files in the shape of a bonus of four levels (14,000 people), a matching gift (50,000) and an e-mail of "
    f"three arms (64,000), with known truth; ridge regressions by level; {DRAWS} draws a seed, half of them "
    "also judged in folds; simulated",
    run=run,
    reading=reading,
    primary=Primary(FLAT, f"all, {SEQUENCE}", f"all, {FOLDS}", effect=0.04, spread=0.06),
    compare=[(AREA, f"all, {SEQUENCE}", f"all, {FOLDS}"), (NOTHING, f"all, {SEQUENCE}", f"all, {FOLDS}")],
    seeds=20,
)
