"""The interval solver against the readable one, on inputs large enough for its sample and its bracket to matter."""

import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.allocation.oracles.breakpoints import solve_breakpoints
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.one_budget import search
from shadowprice.allocation.one_budget.search import Goal, interval, locate
from shadowprice.allocation.population.population import InMemory
from shadowprice.allocation.population.sampling import strata
from shadowprice.allocation.population.spend_curve import SpendCurve

LEVELS = np.arange(1, 11) * 20
ACCOUNTS = 30_000


def curves(kind: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    value = np.sort(random.random((LEVELS.size, ACCOUNTS), dtype=np.float32), axis=0)
    if kind == "sorted":
        value = value[:, np.argsort(value[4])]
    elif kind == "clustered":
        value = np.repeat(value[:, :30], ACCOUNTS // 30, axis=1)
    elif kind == "not monotone":
        value = random.random((LEVELS.size, ACCOUNTS), dtype=np.float32)
    elif kind == "few types":
        value = np.ascontiguousarray(value[:, random.integers(0, 5, ACCOUNTS)])
    return value


def resource(form: str, value: np.ndarray, share: float) -> Resource:
    mean = float((LEVELS[:, None] * value).mean())
    if form == "total":
        return Resource.total("b", on_response(LEVELS), share * mean * ACCOUNTS)
    if form == "granted":
        return Resource.total("b", LEVELS, share * float(LEVELS.mean()) * ACCOUNTS)
    if form == "per account":
        return Resource.per_account("b", on_response(LEVELS), share * mean)
    return Resource.per_response("b", on_response(LEVELS), share * float(LEVELS.mean()), value)


@pytest.mark.parametrize("kind", ["random", "sorted", "clustered", "not monotone", "few types"])
@pytest.mark.parametrize("form", ["total", "granted", "per account", "per response"])
def test_it_gives_the_price_and_the_certificate_of_the_readable_solver(kind: str, form: str) -> None:
    value = curves(kind)
    for share in (0.3, 0.9):
        problem = Problem(value, [resource(form, value, share)])
        fast, plain = solve(problem), solve_breakpoints(problem)
        assert fast.status == plain.status == "optimal"
        assert 1 <= fast.passes <= 2
        assert fast.prices[0] == pytest.approx(plain.prices[0], rel=1e-12)
        assert fast.tie_share == pytest.approx(plain.tie_share, abs=1e-6)
        assert fast.primal == pytest.approx(plain.primal, rel=1e-11)
        assert fast.dual == pytest.approx(plain.dual, rel=1e-11)
        assert abs(fast.gap) <= 1e-9
        assert fast.violation <= 1e-11
        assert np.count_nonzero(fast.level != plain.level) <= max(fast.tied, 2)


@pytest.mark.parametrize("kind", ["random", "sorted", "clustered"])
def test_a_second_pass_is_rare_and_a_third_never_needed(kind: str) -> None:
    passes = []
    for seed in range(40):
        value = curves(kind, seed)
        share = 0.2 + 0.02 * seed
        passes.append(solve(Problem(value, [resource("per account", value, share)])).passes)
    assert max(passes) <= 2
    assert np.mean(passes) <= 1.1


@pytest.mark.parametrize("near", [1e-9, 0.5, 0.97, 1.0, 1.001, 3.0, 1e9])
def test_a_last_price_saves_the_sample_and_a_wrong_one_changes_nothing(near: float) -> None:
    value = curves("random")
    problem = Problem(value, [resource("total", value, 0.5)])
    cold = solve(problem)
    warm = solve(problem, near=near * float(cold.prices[0]))
    assert warm.prices[0] == cold.prices[0]
    assert warm.primal == pytest.approx(cold.primal, rel=1e-13)
    if 0.99 < near < 1.01:
        assert warm.passes == 1


def test_masks_and_members_are_kept() -> None:
    value = curves("random")
    random = np.random.default_rng(3)
    allowed = random.random(value.shape) < 0.6
    allowed[0] = True
    members = random.random(ACCOUNTS) < 0.4
    problem = Problem(value, [Resource.total("b", on_response(LEVELS), 8.0 * ACCOUNTS, members)], allowed)
    fast, plain = solve(problem), solve_breakpoints(problem)
    assert fast.primal == pytest.approx(plain.primal, rel=1e-11)
    assert allowed[fast.level, np.arange(ACCOUNTS)].all()


def test_the_order_of_matrices_in_memory_does_not_matter() -> None:
    value = curves("random")
    allowed = np.random.default_rng(3).random(value.shape) < 0.6
    allowed[0] = True
    limits = [Resource.total("b", on_response(LEVELS), 15.0 * ACCOUNTS)]
    wanted = solve(Problem(value, limits, allowed))
    for change in (
        np.asfortranarray,
        lambda matrix: matrix[:, ::-1].copy()[:, ::-1],
        lambda matrix: matrix[::-1].copy()[::-1],
    ):
        for changed in (Problem(value, limits, change(allowed)), Problem(change(value), limits, change(allowed))):
            found = solve(changed)
            assert found.primal == pytest.approx(wanted.primal, rel=1e-12)
            np.testing.assert_array_equal(found.level, wanted.level)


@pytest.mark.parametrize("neighbors", [1, 300, 20_000])
def test_wide_blocks_know_how_little_they_know_of_neighbors_that_are_alike(neighbors: int) -> None:
    accounts, misses = 120_000, 0
    for seed in range(5):
        random = np.random.default_rng(seed)
        value = np.sort(random.random((LEVELS.size, accounts), dtype=np.float32), axis=0)
        value *= np.repeat(random.random(accounts // neighbors + 1, dtype=np.float32), neighbors)[:accounts]
        goal = Goal(NetCost(np.zeros(LEVELS.size), (LEVELS.astype(float),)), np.ones(1), 10.0 * accounts)
        exact = locate(InMemory(Tile(value, (value,))), goal)
        # A sample of 64 blocks of 96: more accounts to a block than the variance of single blocks would excuse.
        starts = strata(accounts, 6144, width=96)
        sample = InMemory(Tile(value, (value,))).sample(starts, 96)
        low, high, _ = interval(sample, goal, 10.0, 0.0, np.inf, 3.0, 96)
        misses += not low <= exact.price <= high
    assert misses <= 1


def test_without_the_compiled_kernel_the_answers_are_the_same() -> None:
    code = (
        "import numpy as np; from shadowprice.allocation import *;"
        "from shadowprice.allocation.kernel import IS_COMPILED; assert not IS_COMPILED;"
        "v=np.sort(np.random.default_rng(0).random((10,30000),dtype=np.float32),axis=0);"
        "a=solve(Problem(v,[Resource.total('b',on_response(np.arange(1,11)*20),600000.0)]));"
        "print(repr(float(a.prices[0])), repr(a.primal), int(a.level.sum()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SHADOWPRICE_KERNEL": "numpy"},
    )
    price, primal, levels = done.stdout.split()
    here = solve(Problem(curves("random"), [Resource.total("b", on_response(LEVELS), 600_000.0)]))
    assert float(price) == pytest.approx(here.prices[0], rel=1e-12)
    assert float(primal) == pytest.approx(here.primal, rel=1e-12)
    assert int(levels) == int(here.level.sum())


@pytest.mark.parametrize("side", [-1.2, 1.2])
def test_a_part_of_the_sample_that_is_off_is_seen_before_the_pass(side: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nested interval that lies beside the price must not keep the sample from its own."""
    random = np.random.default_rng(5)
    value = np.sort(random.random((6, 12_288)), axis=0)
    tile = Tile(value, (value,))
    goal = Goal(NetCost(np.zeros(6), (np.arange(1.0, 7.0),)), np.ones(1), 0.0)

    def beside(part: Tile, *given: object) -> tuple[float, float, float]:
        left, right, spread = interval(part, *given)  # type: ignore[arg-type]
        return left + side * (right - left), right + side * (right - left), spread

    monkeypatch.setattr(search, "interval", beside)
    for mean in (0.9, 1.5, 2.1):
        left, right, _ = interval(tile, goal, mean, 0.0, np.inf, 3.0)
        own = SpendCurve.of(tile, goal.cost, goal.member, 0.0, np.inf).price(mean * 12_288)
        assert left <= own <= right
