"""The compiled pass against the numpy one and brute force, in every variant, and what it refuses."""

import pickle
import threading
import time
from collections.abc import Callable
from ctypes import CDLL

import numpy as np
import pytest

from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.allocation.kernel import NetCost, Tile, compiled, plain
from shadowprice.errors import InvalidProblem

ACCOUNTS = 3_001
needs_compiled = pytest.mark.usefixtures("_built")


@pytest.fixture
def _built(built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)


def tile(planes: str, *, patterned: bool, masked: bool, depth: int, dtype: type, seed: int) -> tuple[Tile, NetCost]:
    random = np.random.default_rng(seed)

    def matrix() -> np.ndarray:
        return random.random((depth, ACCOUNTS)).astype(dtype)

    value = matrix()
    made = {
        "none": (),
        "same": (value,),
        "own": (matrix(),),
        "same, own": (value, matrix()),
        "two": (matrix(), matrix()),
    }
    allowed = random.random((depth, ACCOUNTS)) < 0.7
    allowed[random.integers(0, depth, ACCOUNTS), np.arange(ACCOUNTS)] = True
    cost = NetCost(random.random(depth), tuple(random.random(depth) * 3 for _ in made[planes]), len(made[planes]))
    pattern = random.integers(0, 3, ACCOUNTS).astype(np.uint16) if patterned else None
    return Tile(value, made[planes], pattern, allowed if masked else None), cost


@needs_compiled
@pytest.mark.parametrize("planes", ["none", "same", "own", "same, own", "two"])
@pytest.mark.parametrize(("patterned", "masked"), [(False, False), (True, False), (False, True), (True, True)])
def test_settled_accounts_and_their_sums_are_right_in_every_variant(
    planes: str, patterned: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_here = compiled.INSTRUCTIONS
    for seed, (depth, dtype) in enumerate(
        [(1, np.float32), (4, np.float32), (19, np.float32), (130, np.float32), (5, np.float64)]
    ):
        points, cost = tile(planes, patterned=patterned, masked=masked, depth=depth, dtype=dtype, seed=seed)
        low, high = np.array([0.2, 0.0, 0.5]), np.array([0.25, 0.01, 0.5])
        if not patterned:
            low, high = low[:1], high[:1]
        pattern = np.zeros(ACCOUNTS, dtype=int) if points.pattern is None else points.pattern
        allowed = np.ones(points.value.shape, dtype=bool) if points.allowed is None else points.allowed
        value, net = points.value.astype(float), np.broadcast_to(cost.of(points.planes), points.value.shape)
        ends = [np.where(allowed, value - price[pattern] * net, -np.inf).argmax(axis=0) for price in (low, high)]
        reference = plain.score(points, cost, low, high)
        for instructions in range(best_here + 1):
            monkeypatch.setattr(compiled, "INSTRUCTIONS", instructions)
            scored = compiled.score(points, cost, low, high)
            settled = np.ones(ACCOUNTS, dtype=bool)
            settled[scored.account] = False
            assert scored.level is not None
            # Whoever changes is unsettled, whoever is settled has the true best level.
            assert not settled[ends[0] != ends[1]].any()
            np.testing.assert_array_equal(scored.level[settled], ends[0][settled])
            # Very few are left unsettled for the arithmetic's sake alone.
            assert (~settled).sum() <= (ends[0] != ends[1]).sum() + 5
            np.testing.assert_array_equal(scored.open.value, points.value[:, scored.account])
            for mine, given in zip(scored.open.planes, points.planes, strict=True):
                np.testing.assert_array_equal(mine, given[:, scored.account])
            chosen, columns = scored.level[settled], np.flatnonzero(settled)
            measure = points.planes[-1].astype(float) if points.planes else np.zeros(value.shape)
            for column, matrix in enumerate((value, net, measure, np.ones(value.shape))):
                sums = np.bincount(pattern[settled], weights=matrix[chosen, columns], minlength=low.size)
                np.testing.assert_allclose(scored.sums[:, column], sums, rtol=1e-12, atol=1e-12)
            assert not scored.suspect
            assert abs(len(reference.account) - len(scored.account)) <= 5


@needs_compiled
def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    points, cost = tile("own", patterned=False, masked=True, depth=6, dtype=np.float32, seed=0)
    monkeypatch.setattr(compiled, "THREADED", 1)
    monkeypatch.setattr(compiled, "PIECE", 700)
    found = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(compiled, "THREADS", threads)
        found.append(compiled.score(points, cost, np.array([0.2]), np.array([0.25])))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].sums, other.sums)
        np.testing.assert_array_equal(found[0].account, other.account)
        np.testing.assert_array_equal(found[0].open.value, other.open.value)
        np.testing.assert_array_equal(found[0].level, other.level)


@needs_compiled
def test_an_interrupted_pass_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    points, cost = tile("own", patterned=False, masked=False, depth=6, dtype=np.float32, seed=0)
    monkeypatch.setattr(compiled, "THREADED", 1)
    monkeypatch.setattr(compiled, "PIECE", 100)
    monkeypatch.setattr(compiled, "THREADS", 3)
    run, me = compiled._Piece.run, threading.get_ident()

    def interrupted(piece: compiled._Piece, given: object, buffer: compiled._Buffer) -> None:
        if threading.get_ident() == me:
            raise KeyboardInterrupt
        time.sleep(0.05)  # so that something is left for this thread
        run(piece, given, buffer)  # type: ignore[arg-type]

    monkeypatch.setattr(compiled._Piece, "run", interrupted)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        compiled.score(points, cost, np.array([0.2]), np.array([0.25]))
    assert threading.active_count() == before


LEVELS = np.array([10, 20, 30])


def spoilt(name: str) -> tuple[str, Callable[[np.ndarray, np.ndarray], Resource]]:
    def make(value: np.ndarray, other: np.ndarray) -> Resource:
        if name == "money.response":
            return Resource.per_response("money", LEVELS, 8.0, other)
        if name == "money.cost":
            return Resource.per_account("money", other * 10, 8.0)
        return Resource.per_account("money", LEVELS if name == "value" else on_response(LEVELS), 12.0)

    return name, make


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, -1.0])
@pytest.mark.parametrize("where", ["value", "value, paid on response", "money.response", "money.cost"])
def test_a_bad_number_anywhere_is_found_by_the_pass_that_reads_it(where: str, entry: float) -> None:
    name, make = spoilt(where)
    accounts = 40_000
    random = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        value = np.sort(random.random((3, accounts)), axis=0).astype(dtype)
        other = np.sort(random.random((3, accounts)), axis=0).astype(dtype)
        at = int(random.integers(0, accounts))
        (value if where.startswith("value") else other)[1, at] = entry
        problem = Problem(value, [make(value, other)])
        if where == "value" and entry == -1.0:
            assert solve(problem).status == "optimal"  # an uplift may be negative
            continue
        with pytest.raises(InvalidProblem) as caught:
            solve(problem)
        negative_value = where == "value, paid on response" and entry == -1.0
        assert caught.value.field == ("money.cost" if negative_value else name.split(",")[0])
        assert caught.value.rows == (at,)


def test_a_negative_zero_is_a_zero() -> None:
    random = np.random.default_rng(1)
    value = np.sort(random.random((3, 20_000)), axis=0).astype(np.float32)
    value[:, ::50] = 0.0
    plain_zero = solve(Problem(value, [Resource.per_account("money", on_response(LEVELS), 8.0)]))
    value[:, ::50] = -0.0
    negative_zero = solve(Problem(value, [Resource.per_account("money", on_response(LEVELS), 8.0)]))
    assert negative_zero.prices[0] == plain_zero.prices[0]
    assert negative_zero.primal == pytest.approx(plain_zero.primal, rel=1e-14)


@needs_compiled
def test_addresses_of_tables_do_not_leave_the_process() -> None:
    _, cost = tile("own", patterned=False, masked=False, depth=6, dtype=np.float32, seed=0)
    assert cost.addresses == [table.ctypes.data for table, _ in cost.tables]
    again = pickle.loads(pickle.dumps(cost))
    assert again.addresses == [table.ctypes.data for table, _ in again.tables]
    np.testing.assert_array_equal(again.offset, cost.offset)


@needs_compiled
@pytest.mark.parametrize("seed", range(20))
def test_selection_agrees_with_sorting(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 200))
    slope = random.integers(1, 40, size) / 8.0 if seed % 2 else random.random(size)
    step = random.integers(1, 9, size).astype(float)  # whole numbers: sums do not depend on their order
    for budget in (0.0, *random.uniform(0, 5.0 * size + 1, 20), float(step.sum())):
        assert compiled.select(slope, step, budget, 0.5) == plain.select(slope, step, budget, 0.5)


@needs_compiled
@pytest.mark.parametrize("kind", ["none", "same, own", "two"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("patterned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hulls_agree_with_the_readable_kernel(kind: str, masked: bool, patterned: bool, dtype: type) -> None:
    points, cost = tile(kind, patterned=patterned, masked=masked, depth=7, dtype=dtype, seed=3)
    member = np.array([0.0, 1.0, 1.0]) if patterned else np.ones(1)
    for low, high in ((0.0, np.inf), (0.1, 0.4), (0.2, 0.2)):
        mine, theirs = (each.climb(points, cost, member, low, high) for each in (compiled, plain))
        np.testing.assert_array_equal(mine.account, theirs.account)
        np.testing.assert_allclose(mine.slope, theirs.slope, rtol=1e-12)
        np.testing.assert_allclose(mine.step, theirs.step, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(mine.base, theirs.base, rtol=1e-12, atol=1e-15)
