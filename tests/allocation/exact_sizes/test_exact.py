"""Exact segment sizes against assignment, min-cost flow and linear programming, on random and adversarial instances."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_matrix, vstack

from shadowprice.allocation import NOBODY, Plan, solve_demands
from shadowprice.allocation.exact_sizes import exact
from shadowprice.errors import InvalidProblem

LAWS = settings(max_examples=60, deadline=None, derandomize=True)
FORBIDDEN = 1e6


def demands_of(random: np.random.Generator, depth: int, accounts: int, kind: str = "any") -> np.ndarray:
    """Whole demands with sum ``accounts``."""
    weight = np.ones(depth) if kind == "equal" else random.dirichlet(np.full(depth, 0.3 if kind == "skewed" else 2.0))
    if kind == "zeros":
        weight[random.permutation(depth)[: depth // 2]] = 0.0
    if kind == "one":
        weight[:] = 0.0
        weight[random.integers(depth)] = 1.0
    demand = np.floor(weight / weight.sum() * accounts).astype(np.int64)
    demand[int(demand.argmax())] += accounts - demand.sum()
    return demand


def values_of(random: np.random.Generator, depth: int, accounts: int, kind: str) -> np.ndarray:
    uniform = random.random((depth, accounts))
    made = {
        "uniform": uniform,
        "ties": np.round(uniform * 3) / 3,
        "equal": np.full((depth, accounts), 0.5),
        "zero": np.zeros((depth, accounts)),
        "duplicates": uniform[:, random.integers(0, min(4, accounts), accounts)],
        "same ranking": uniform[:1] * np.arange(1, depth + 1)[:, None],
        "heavy tail": random.pareto(1.1, (depth, accounts)),
        "negative": uniform - 0.7,
        "tiny": uniform * 1e-12,
        "huge": uniform * 1e12,
        "far from zero": 1e6 + uniform,
        "mixed scales": uniform * 10.0 ** random.integers(-12, 13, accounts),
        "denormal": uniform * 1e-42,
        "one level stands out": uniform + 10.0 * (np.arange(depth) == 0)[:, None],
        "clusters far apart": np.round(uniform) * 1000 + uniform * 1e-3,
    }
    return made[kind].astype(np.float32)


KINDS = [
    "uniform",
    "ties",
    "equal",
    "zero",
    "duplicates",
    "same ranking",
    "heavy tail",
    "negative",
    "tiny",
    "huge",
    "far from zero",
    "mixed scales",
    "denormal",
    "one level stands out",
    "clusters far apart",
]


def nested(random: np.random.Generator, depth: int, accounts: int, demand: np.ndarray) -> np.ndarray:
    """Risk rules that leave a plan: account i may enter segments up to its tolerance, and the sizes fit."""
    seat = np.repeat(np.arange(depth), demand)
    tolerance = np.minimum(random.permutation(seat) + random.integers(0, 2, accounts), depth - 1)
    return np.arange(depth)[:, None] <= tolerance


def assignment(value: np.ndarray, demand: np.ndarray, allowed: np.ndarray | None = None) -> float | None:
    """Optimum by the Hungarian method on one column per seat."""
    gain = value.astype(np.float64)
    scale = max(float(np.abs(gain).max()), 1e-300)
    gain = gain / scale
    if allowed is not None:
        gain = np.where(allowed, gain, -FORBIDDEN)
    seats = np.repeat(np.arange(demand.size), demand)
    rows, columns = linear_sum_assignment(gain[seats], maximize=True)
    total = gain[seats[rows], columns]
    return None if (total < -FORBIDDEN / 2).any() else float(value.astype(np.float64)[seats[rows], columns].sum())


def check(plan: Plan, value: np.ndarray, demand: np.ndarray, allowed: np.ndarray | None = None) -> None:
    """Sizes, eligibility, and the certificate worked out again from the prices alone."""
    depth, accounts = value.shape
    gain = value.astype(np.float64)
    assert plan.status == "optimal"
    columns = np.arange(accounts)
    np.testing.assert_array_equal(np.bincount(plan.segment, minlength=depth), demand)
    may = np.ones(value.shape, dtype=bool) if allowed is None else allowed
    assert may[plan.segment, columns].all()
    size = np.abs(gain).sum() + accounts * np.abs(plan.prices).max()
    assert plan.objective == pytest.approx(gain[plan.segment, columns].sum(), abs=1e-12 * size)
    score = np.where(may, gain - plan.prices[:, None], -np.inf)
    dual = float(demand @ plan.prices) + float(score.max(axis=0).sum())
    assert plan.dual == pytest.approx(dual, abs=1e-12 * size)
    assert dual - plan.objective <= 1e-12 * size
    assert plan.gap <= 1e-9
    assert plan.prices.min() >= 0
    # Everybody's segment is the best at the prices, up to ties.
    lost = score.max(axis=0) - score[plan.segment, columns]
    assert (lost <= 1e-12 * (np.abs(gain).max() + np.abs(plan.prices).max())).all()


@pytest.fixture(params=["paths alone", "boxes"])
def narrowed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to the optimum at sizes that the references can solve."""
    if request.param == "boxes":
        monkeypatch.setattr(exact, "EXACT", 40)
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", ["any", "skewed", "zeros"])
def test_the_objective_is_that_of_the_hungarian_method(kind: str, sizes: str, narrowed: str) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        depth, accounts = int(random.integers(2, 8)), int(random.integers(140, 260))
        value, demand = values_of(random, depth, accounts, kind), demands_of(random, depth, accounts, sizes)
        plan = solve_demands(value, demand)
        check(plan, value, demand)
        best = assignment(value, demand)
        assert best is not None
        assert plan.objective == pytest.approx(best, abs=1e-11 * np.abs(value.astype(float)).sum())


@pytest.mark.parametrize("kind", ["uniform", "ties", "equal", "negative", "heavy tail"])
def test_nobody_enters_a_segment_above_his_tolerance(kind: str, narrowed: str) -> None:
    for seed in range(6):
        random = np.random.default_rng(seed)
        depth, accounts = int(random.integers(2, 7)), int(random.integers(140, 260))
        value, demand = values_of(random, depth, accounts, kind), demands_of(random, depth, accounts)
        allowed = nested(random, depth, accounts, demand)
        plan = solve_demands(value, demand, allowed)
        check(plan, value, demand, allowed)
        best = assignment(value, demand, allowed)
        assert plan.objective == pytest.approx(best, abs=1e-11 * np.abs(value.astype(float)).sum())


def test_random_masks_are_solved_or_refuted_as_the_hungarian_method_says(narrowed: str) -> None:
    answers = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        depth, accounts = int(random.integers(2, 6)), int(random.integers(140, 200))
        value, demand = values_of(random, depth, accounts, "uniform"), demands_of(random, depth, accounts)
        allowed = random.random((depth, accounts)) < random.uniform(0.2, 0.7)
        allowed[random.integers(0, depth, accounts), np.arange(accounts)] = True
        plan = solve_demands(value, demand, allowed)
        best = assignment(value, demand, allowed)
        answers.add(plan.status)
        assert (plan.status == "infeasible") == (best is None)
        if best is None:
            assert plan.shortage is not None
            segments = list(plan.shortage.segments)
            assert plan.shortage.demanded == demand[segments].sum()
            assert plan.shortage.eligible == np.count_nonzero(allowed[segments].any(axis=0))
            assert plan.shortage.eligible < plan.shortage.demanded
            assert (plan.segment == NOBODY).all()
        else:
            check(plan, value, demand, allowed)
            assert plan.objective == pytest.approx(best, rel=1e-12)
    assert answers == {"optimal", "infeasible"}


def test_the_linear_program_has_no_better_answer(narrowed: str) -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        depth, accounts = 4, 200
        value, demand = values_of(random, depth, accounts, "uniform"), demands_of(random, depth, accounts)
        allowed = nested(random, depth, accounts, demand)
        one = csr_matrix((np.ones(value.size), (np.tile(np.arange(accounts), depth), np.arange(value.size))))
        size = csr_matrix((np.ones(value.size), (np.repeat(np.arange(depth), accounts), np.arange(value.size))))
        found = linprog(
            -value.astype(np.float64).ravel(),
            A_eq=vstack([one, size]),
            b_eq=np.concatenate([np.ones(accounts), demand]),
            bounds=[(0.0, float(may)) for may in allowed.ravel()],
            method="highs",
        )
        assert solve_demands(value, demand, allowed).objective == pytest.approx(-found.fun, rel=1e-9)


Flow = Callable[..., int | None]

WORKER = """
import pickle, sys
import numpy as np
from ortools.graph.python import min_cost_flow

while True:
    try:
        value, demand, may = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    depth, accounts = value.shape
    solver = min_cost_flow.SimpleMinCostFlow()
    segment, account = np.nonzero(may)
    solver.add_arcs_with_capacity_and_unit_cost(
        account, accounts + segment, np.ones(account.size, dtype=np.int64), -value[may].astype(np.int64)
    )
    supplies = np.concatenate([np.ones(accounts, dtype=np.int64), -demand])
    solver.set_nodes_supplies(np.arange(accounts + depth), supplies)
    found = -int(solver.optimal_cost()) if solver.solve() == solver.OPTIMAL else None
    pickle.dump(found, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    """Optimum for whole-number values by OR-tools, in its own process: its HiGHS and highspy's exclude each other."""
    with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None

        def solved(value: np.ndarray, demand: np.ndarray, allowed: np.ndarray | None = None) -> int | None:
            may = np.ones(value.shape, dtype=bool) if allowed is None else allowed
            pickle.dump((value, demand, may), worker.stdin)
            worker.stdin.flush()
            found: int | None = pickle.load(worker.stdout)
            return found

        yield solved
        worker.stdin.close()


@pytest.mark.parametrize("kind", ["random", "few values", "sorted", "clustered", "few types", "scarce segments"])
@pytest.mark.parametrize("masked", [False, True])
def test_twenty_thousand_accounts_against_min_cost_flow(kind: str, masked: bool, flow: Flow) -> None:
    random = np.random.default_rng(5)
    depth, accounts = 6, 20_000
    # Whole numbers: the flow's optimum is exact, and so must ours be.
    value = random.integers(0, 5 if kind == "few values" else 100_000, (depth, accounts)).astype(np.float32)
    if kind == "sorted":
        value = np.ascontiguousarray(value[:, np.argsort(value[0])])
    if kind == "clustered":
        value = np.repeat(value[:, ::200], 200, axis=1)
    if kind == "few types":
        value = np.ascontiguousarray(value[:, random.integers(0, 7, accounts)])
    demand = demands_of(random, depth, accounts)
    if kind == "scarce segments":
        demand = np.array([1, 3, 40, 0, 400, accounts - 444])
    allowed = nested(random, depth, accounts, demand) if masked else None
    plan = solve_demands(value, demand, allowed)
    check(plan, value, demand, allowed)
    assert plan.objective == flow(value, demand, allowed)


def test_a_tight_set_of_segments_costs_time_and_not_the_optimum(flow: Flow) -> None:
    random = np.random.default_rng(2)
    accounts = 12_000
    value = random.integers(0, 1000, (4, accounts)).astype(np.float32)
    bold = np.zeros(accounts, dtype=bool)
    bold[random.permutation(accounts)[:5003]] = True
    allowed = np.vstack([np.ones((2, accounts), dtype=bool), np.tile(bold, (2, 1))])
    for slack in (0, 3):
        demand = np.array([4000, accounts - 5003 - 4000 + slack, 2000, 3003 - slack])
        plan = solve_demands(value, demand, allowed)
        check(plan, value, demand, allowed)
        assert plan.objective == flow(value, demand, allowed)
    plan = solve_demands(value, [4000, 2996, 2000, 3004], allowed)
    assert plan.status == "infeasible"
    assert plan.shortage is not None
    assert (plan.shortage.segments, plan.shortage.demanded, plan.shortage.eligible) == ((2, 3), 5004, 5003)
    assert str(plan.shortage) == "segments [2, 3] ask for 5004 accounts and only 5003 may enter them"


def test_more_segments_than_a_byte_can_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "EXACT", 1000)
    random = np.random.default_rng(9)
    value = values_of(random, 140, 3000, "uniform")
    value[20:] -= 1.0
    demand = np.where(np.arange(140) < 20, 144, 1)
    plan = solve_demands(value, demand)
    check(plan, value, demand)
    assert plan.segment.max() == 139


def test_the_smallest_problems() -> None:
    one = solve_demands(np.array([[3.0]], dtype=np.float32), [1])
    assert (one.segment.tolist(), one.objective, one.dual, one.gap) == ([0], 3.0, 3.0, 0.0)
    single = solve_demands(np.array([[1.0], [9.0]], dtype=np.float32), [1, 0])
    assert (single.segment.tolist(), single.objective, single.dual) == ([0], 1.0, 1.0)
    assert single.prices[1] >= 8.0
    # Two accounts, two problem: 10 + 5 beats what either wants first.
    pair = solve_demands(np.array([[10, 9], [1, 5]], dtype=np.float32), [1, 1])
    assert (pair.segment.tolist(), pair.objective) == ([0, 1], 15.0)


def test_an_account_whose_only_segment_is_closed_makes_the_sizes_impossible() -> None:
    allowed = np.array([[True, True, False], [True, True, False], [False, False, True]])
    plan = solve_demands(np.ones((3, 3), dtype=np.float32), [2, 1, 0], allowed)
    assert plan.status == "infeasible"
    assert plan.shortage is not None
    assert (plan.shortage.segments, plan.shortage.demanded, plan.shortage.eligible) == ((0, 1), 3, 2)


@st.composite
def instances(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    depth, accounts = draw(st.integers(1, 6)), draw(st.integers(1, 60))
    value = values_of(random, depth, accounts, draw(st.sampled_from(["uniform", "ties", "negative", "heavy tail"])))
    return value, demands_of(random, depth, accounts, draw(st.sampled_from(["any", "zeros", "equal", "one"]))), random


@LAWS
@given(instances())
def test_the_order_of_accounts_and_segments_does_not_matter(
    instance: tuple[np.ndarray, np.ndarray, np.random.Generator],
) -> None:
    value, demand, random = instance
    accounts, segments = random.permutation(value.shape[1]), random.permutation(value.shape[0])
    one, other = solve_demands(value, demand), solve_demands(value[segments][:, accounts], demand[segments])
    size = np.abs(value.astype(float)).sum() + 1e-30
    assert abs(one.objective - other.objective) <= 1e-12 * size
    # Where nobody ties the plan itself is permuted.
    score = value - one.prices[:, None]
    if value.shape[0] > 1 and np.diff(np.sort(score, axis=0)[-2:], axis=0).min() > 1e-9 * np.abs(score).max():
        np.testing.assert_array_equal(one.segment[accounts], segments[other.segment])


@LAWS
@given(instances(), st.floats(-20, 20), st.integers(-20, 20))
def test_a_constant_for_an_account_or_a_segment_changes_no_plan(
    instance: tuple[np.ndarray, np.ndarray, np.random.Generator], shift: float, power: int
) -> None:
    value, demand, random = instance
    plan = solve_demands(value.astype(np.float64), demand)
    moved = value.astype(np.float64) + random.normal(size=value.shape[1]) + shift * np.arange(value.shape[0])[:, None]
    other = solve_demands(moved, demand)
    columns = np.arange(value.shape[1])
    gain = value.astype(np.float64)
    assert gain[other.segment, columns].sum() == pytest.approx(plan.objective, abs=1e-9 * (1 + np.abs(moved).sum()))
    # A power of two scales without rounding.
    scaled = solve_demands(gain * 2.0**power, demand)
    np.testing.assert_array_equal(scaled.segment, plan.segment)
    np.testing.assert_array_equal(scaled.prices, plan.prices * 2.0**power)


@LAWS
@given(instances())
def test_a_seat_more_is_worth_its_price(instance: tuple[np.ndarray, np.ndarray, np.random.Generator]) -> None:
    value, demand, _ = instance
    plan = solve_demands(value, demand)
    for a in range(value.shape[0]):
        for b in range(value.shape[0]):
            if a == b or demand[a] == 0:
                continue
            moved = demand.copy()
            moved[a] -= 1
            moved[b] += 1
            gain = solve_demands(value, moved).objective - plan.objective
            # The optimum is concave in the demands; the prices are one of its slopes.
            assert gain <= plan.prices[b] - plan.prices[a] + 1e-9 * (1 + np.abs(plan.prices).max())


def test_a_price_from_before_gives_the_same_answer() -> None:
    random = np.random.default_rng(0)
    value, demand = values_of(random, 5, 15_000, "uniform"), demands_of(random, 5, 15_000)
    plan = solve_demands(value, demand)
    for near in (plan.prices, plan.prices * 3, np.zeros(5)):
        assert solve_demands(value, demand, near=near).objective == pytest.approx(plan.objective, rel=1e-12)
    with pytest.raises(InvalidProblem, match="near"):
        solve_demands(value, demand, near=[1.0, np.nan, 0, 0, 0])


def test_layouts_and_types_that_hold_the_same_numbers_give_the_same_answer() -> None:
    random = np.random.default_rng(1)
    value, demand = values_of(random, 4, 10_000, "ties"), demands_of(random, 4, 10_000)
    allowed = nested(random, 4, 10_000, demand)
    plan = solve_demands(value, demand, allowed)
    for other in (value.astype(np.float64), np.asfortranarray(value), value[:, ::-1].copy()[:, ::-1]):
        again = solve_demands(other, demand.tolist(), np.asfortranarray(allowed))
        assert again.objective == pytest.approx(plan.objective, rel=1e-12)
        check(again, value, demand, allowed)


GOOD = np.ones((2, 4), dtype=np.float32)
NAN, INF = GOOD.copy(), GOOD.copy()
NAN[1, 2], INF[0, 3] = np.nan, -np.inf


@pytest.mark.parametrize(
    ("value", "demands", "allowed", "field", "message"),
    [
        (GOOD[0], [4], None, "value", "shape"),
        (GOOD[:, :0], [0, 0], None, "value", "empty"),
        (GOOD.astype(int), [2, 2], None, "value", "floating point"),
        (NAN, [2, 2], None, "value", "finite.*2"),
        (INF, [2, 2], None, "value", "finite.*3"),
        (GOOD * 1e25, [2, 2], None, "value", "rescale"),
        (GOOD, [4], None, "demands", "per segment"),
        (GOOD, [[2, 2]], None, "demands", "per segment"),
        (GOOD, [2.0, 2.0], None, "demands", "whole"),
        (GOOD, [5, -1], None, "demands", "negative"),
        (GOOD, [2, 1], None, "demands", "sum to the number of accounts, 4, got 3"),
        (GOOD, [3, 2], None, "demands", "sum"),
        (GOOD, [2, 2], np.ones((2, 3), dtype=bool), "allowed", "shape"),
        (GOOD, [2, 2], np.ones((2, 4)), "allowed", "boolean"),
        (GOOD, [2, 2], np.array([[True] * 4, [True] * 4]) & (np.arange(4) != 1), "allowed", "first rows: 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    value: np.ndarray, demands: list[int], allowed: np.ndarray | None, field: str, message: str
) -> None:
    with pytest.raises(InvalidProblem, match=message) as caught:
        solve_demands(value, demands, allowed)
    assert caught.value.field == field
