"""The table of joint against separate budgets, on curves that are known."""

import numpy as np
import pytest

from benchmarks.world.training_set import training_set
from research.tables.s0.joint import (
    BUDGETS,
    FLAT,
    HINDSIGHT,
    JOINT,
    MAIN,
    ONE_PRICE,
    REQUESTS,
    SEPARATE,
    SHARE,
    TRIAL,
    TRUE,
    loss,
    losses,
    one_side,
    terms,
    trial_spend,
)
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.datasets.world import CUSTOMER_LEVELS, MERCHANT_LEVELS, customer_response, merchant_response

LEVELS = {"customer": CUSTOMER_LEVELS, "merchant": MERCHANT_LEVELS}
RANDOM = np.random.default_rng(3)
TRUTH = {
    "customer": customer_response(RANDOM.normal(size=(400, 2))),
    "merchant": merchant_response(RANDOM.normal(size=(100, 2))),
}
TRIAL_SPEND = {basis: {"customer": 10_000.0, "merchant": 3_000.0} for basis in ("on_grant", "on_response")}


def shuffled(seed: int) -> dict[str, np.ndarray]:
    return {side: each[:, np.random.default_rng(seed).permutation(each.shape[1])] for side, each in TRUTH.items()}


def test_on_true_curves_one_budget_is_the_optimum_and_no_split_is_better() -> None:
    rows = losses({JOINT: TRUTH, SEPARATE: shuffled(1), TRUE: TRUTH}, TRUTH, LEVELS, TRIAL_SPEND)
    for basis in ("on_grant", "on_response"):
        for budget in BUDGETS:
            column = loss(basis, budget)
            assert rows[f"{TRUE}, {ONE_PRICE}"][column] == 0.0
            assert 0.0 <= rows[f"{JOINT}, {HINDSIGHT}"][column] < 0.1
            for how in (REQUESTS, TRIAL):
                assert rows[f"{TRUE}, {how}"][column] >= -1e-9
            assert rows[FLAT][column] > 0.5
            assert rows[f"{SEPARATE}, {ONE_PRICE}"][column] > rows[FLAT][column]
    assert rows[f"{TRUE}, {ONE_PRICE}"][SHARE] == pytest.approx(100.0)


def test_the_optimum_is_that_of_the_linear_program_over_both_sides() -> None:
    """One resource over both sides: customers at r·f, merchants at r, as levels of one problem."""
    width = len(CUSTOMER_LEVELS)
    padded = np.zeros((width, 100))
    padded[: len(MERCHANT_LEVELS)] = TRUTH["merchant"]
    value = np.concatenate([TRUTH["customer"], padded], axis=1).astype(np.float32)
    cost = np.zeros_like(value)
    cost[:, :400] = np.array(CUSTOMER_LEVELS)[:, None] * TRUTH["customer"]
    cost[: len(MERCHANT_LEVELS), 400:] = np.array(MERCHANT_LEVELS)[:, None]
    allowed = np.ones(value.shape, dtype=bool)
    allowed[len(MERCHANT_LEVELS) :, 400:] = False
    certified = solve(Problem(value, [Resource.total("budget", cost, 24.0 * 500)], allowed))
    split = {
        side: solve(Problem(TRUTH[side].astype(np.float32), [Resource.total("own", own, 24.0 * TRUTH[side].shape[1])]))
        for side, own in (
            ("customer", on_response(np.array(CUSTOMER_LEVELS))),
            ("merchant", np.array(MERCHANT_LEVELS, dtype=np.float32)),
        )
    }
    rows = losses({JOINT: TRUTH, SEPARATE: TRUTH, TRUE: TRUTH}, TRUTH, LEVELS, TRIAL_SPEND)
    lost = 100 * (1 - (split["customer"].dual + split["merchant"].dual) / certified.dual)
    assert lost > 0.05
    assert rows[f"{TRUE}, {REQUESTS}"][MAIN] == pytest.approx(lost, abs=0.02)


def test_a_side_trained_alone_reads_no_request_of_the_other() -> None:
    _, data = training_set("world", 0, customers=120, merchants=40, both=4, trials=2)
    alone = one_side(data, "merchant")
    assert set(alone.rows) == set(alone.levels) == set(alone.serving) == {"merchant"}
    assert alone.snapshots == data.snapshots


def test_the_spend_of_the_trial_is_what_its_levels_cost() -> None:
    dataset, data = training_set("world", 0, customers=120, merchants=40, both=4, trials=2)
    train = data.part("train")
    paid = dataset.tables.outcome.set_index("request_id")["cost_paid"]
    for side in ("customer", "merchant"):
        found = trial_spend(data, side, terms(data.levels, "on_grant")[side])
        assert found == pytest.approx(paid.loc[train[side]["request_id"]].mean())
