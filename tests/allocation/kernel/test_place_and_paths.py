"""The compiled passes for segment sizes against the readable ones, and the solver without a compiler."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from shadowprice.allocation.kernel.paths import exact_sizes_compiled, exact_sizes_plain
from shadowprice.allocation.kernel.place import UNBOUNDED, place_compiled, place_plain


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("accounts", [1, 255, 256, 3000])
def test_a_pass_settles_what_no_price_in_the_box_can_change(dtype: type, masked: bool, accounts: int) -> None:
    random = np.random.default_rng(accounts)
    depth = 5
    whole = random.random((depth, accounts + 3)).astype(dtype)
    value = whole[:, 2 : accounts + 2]
    allowed = random.random((depth, accounts)) < 0.6 if masked else None
    if allowed is not None:
        allowed[0] = True
    center = random.random(depth) * 0.3
    low, high = center - 0.02, center + 0.03
    high[3], low[4] = UNBOUNDED, -UNBOUNDED
    fast, plain = place_compiled(value, allowed, low, high), place_plain(value, allowed, low, high)
    np.testing.assert_array_equal(fast.account, plain.account)
    np.testing.assert_array_equal(fast.open, plain.open)
    np.testing.assert_array_equal(fast.sizes, plain.sizes)
    assert fast.worth == pytest.approx(plain.worth, rel=1e-12)
    settled = np.setdiff1d(np.arange(accounts), fast.account)
    np.testing.assert_array_equal(fast.level[settled], plain.level[settled])
    # Wherever the prices are in the bracket, the settled take the same.
    for _ in range(20):
        prices = np.where(random.random(depth) < 0.5, low, high)
        score = np.where(True if allowed is None else allowed, value - prices[:, None], -np.inf)
        np.testing.assert_array_equal(score.argmax(axis=0)[settled], fast.level[settled])


def test_room_for_the_unsettled_grows_when_nearly_all_of_them_are() -> None:
    value = np.random.default_rng(0).random((4, 30_000)).astype(np.float32)
    low, high = np.full(4, -2.0), np.full(4, 2.0)
    passed = place_compiled(value, None, low, high)
    np.testing.assert_array_equal(passed.account, np.arange(30_000))
    np.testing.assert_array_equal(passed.open, value)
    assert (passed.worth, passed.sizes.sum()) == (0.0, 0)


def test_float32_settles_nobody_whose_lead_is_rounding() -> None:
    value = np.array([[1e6], [1e6 + 0.0625]], dtype=np.float32)
    prices = np.array([0.0, 0.06])
    assert place_compiled(value, None, prices, prices).account.size == 1
    assert place_compiled(value.astype(np.float64), None, prices, prices).account.size == 0


@pytest.mark.parametrize("kind", ["uniform", "ties", "masked", "impossible"])
def test_shortest_paths_with_shortlists_equal_those_without(kind: str) -> None:
    for seed in range(12):
        random = np.random.default_rng(seed)
        depth, accounts = int(random.integers(1, 7)), int(random.integers(1, 300))
        value = random.random((accounts, depth))
        if kind == "ties":
            value = np.round(value * 2)
        demand = np.bincount(random.integers(0, depth, accounts), minlength=depth).astype(np.int64)
        if kind in ("masked", "impossible"):
            value[random.random(value.shape) < (0.3 if kind == "masked" else 0.8)] = -np.inf
            value[np.arange(accounts), random.integers(0, depth, accounts)] = 1.0
        prices = random.normal(size=depth)
        fast, plain = exact_sizes_compiled(value, demand, prices), exact_sizes_plain(value, demand, prices)
        assert (fast.reached is None) == (plain.reached is None)
        if fast.reached is not None:
            np.testing.assert_array_equal(fast.reached, plain.reached)
            # Hall: who is in a reached segment cannot leave them.
            inside = np.isfinite(value[:, ~fast.reached]).any(axis=1)
            assert demand[~fast.reached].sum() > inside.sum()
            continue
        seats = np.repeat(np.arange(depth), demand)
        rows, columns = linear_sum_assignment(np.where(np.isfinite(value), value, -1e6)[:, seats], maximize=True)
        best = value[rows, seats[columns]].sum()
        for found in (fast, plain):
            np.testing.assert_array_equal(np.bincount(found.segment, minlength=depth), demand)
            own = value[np.arange(accounts), found.segment]
            assert own.sum() == pytest.approx(best, rel=1e-12)
            assert (own - found.prices[found.segment] >= (value - found.prices).max(axis=1) - 1e-9).all()
            for a in range(depth):
                for b in range(depth):
                    losses = (own - value[:, b])[found.segment == a]
                    least = losses.min() if losses.size and a != b else np.inf
                    assert a == b or found.least[a, b] <= least + 1e-12
                    assert a == b or found.prices[a] - found.prices[b] <= found.least[a, b] + 1e-12
                    assert np.isfinite(found.least[a, b]) or not np.isfinite(least)


def test_without_a_compiler_the_plan_has_the_same_value() -> None:
    script = """
import numpy as np
from shadowprice.allocation import kernel, solve_demands
random = np.random.default_rng(3)
value = random.random((5, 20_000), dtype=np.float32)
demand = np.array([9000, 5000, 3000, 2990, 10])
allowed = random.random(value.shape) < 0.8
allowed[0] = True
objective = solve_demands(value, demand, allowed).objective
"""
    own: dict[str, float] = {}
    exec(script, own)
    checked = f"{script}\nassert not kernel.IS_COMPILED\nprint(repr(objective))"
    environment = {**os.environ, "SHADOWPRICE_KERNEL": "numpy"}
    done = subprocess.run([sys.executable, "-c", checked], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(own["objective"], rel=1e-12)
