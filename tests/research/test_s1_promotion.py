"""Measures of S1's tables: the response of the true curves bounds every model, at exactly the budget."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from research.models import make
from research.models.dipn import START
from research.tables.s1.figure3 import DISTANCE, RISE
from research.tables.s1.figure3 import TABLE as FIGURE3
from research.tables.s1.posterior import posterior_mean
from research.tables.s1.promotion import BUDGET, FLAT, LEAST, flat_mixture, judge, spend
from research.tables.s1.table2 import TABLE as TABLE2
from research.tables.s1.table3 import TABLE as TABLE3
from shadowprice.datasets.promotion import PromotionOptions, draw, draw_curves
from shadowprice.responses.training import TrainingConfig


@pytest.fixture(scope="module")
def drawn():
    return draw(PromotionOptions(rows=300, levels=(0, 5, 10, 20, 50)), seed=3)


def rows(drawn) -> pd.DataFrame:
    return drawn.frame[["level", "response"]]


def test_the_policy_of_the_true_curves_is_the_linear_programs_optimum_and_bounds_every_other(drawn) -> None:
    truth, levels = drawn.response, np.asarray(drawn.levels, dtype=float)
    size, count = truth.shape
    every = np.kron(np.ones((1, size)), np.eye(count))
    optimum = linprog(
        -truth.ravel(),
        A_ub=np.repeat(levels, count)[None] / count,
        b_ub=[BUDGET],
        A_eq=every,
        b_eq=np.ones(count),
        method="highs",
    )
    best = judge(truth, rows(drawn), truth, drawn.levels)
    assert best["future response"] == pytest.approx(-optimum.fun / count, rel=1e-6)
    random = np.random.default_rng(0)
    for noise in (0.05, 0.2, 1.0):
        wrong = np.clip(truth + noise * random.normal(size=truth.shape), 0, 1)
        assert judge(wrong, rows(drawn), truth, drawn.levels)["future response"] <= best["future response"] + 1e-9


def test_the_flat_mixture_is_the_optimum_over_the_shares_of_the_levels(drawn) -> None:
    mean, levels = drawn.response.mean(axis=1), np.asarray(drawn.levels, dtype=float)
    optimum = linprog(-mean, A_ub=levels[None], b_ub=[BUDGET], A_eq=np.ones((1, mean.size)), b_eq=[1.0])
    assert flat_mixture(drawn.response, drawn.levels) == pytest.approx(-optimum.fun, rel=1e-6)


def test_whole_types_that_tie_still_spend_exactly_the_budget(drawn) -> None:
    """Eight curves and 300 accounts: without the tie share a type flips at once and the budget is missed."""
    found = judge(drawn.response, rows(drawn), drawn.response, drawn.levels)
    assert found["future cost"] == pytest.approx(BUDGET, abs=1e-6)
    assert found["future cost error"] == 0
    chosen, share = spend(drawn.response, drawn.levels)
    assert 0 < share < 1
    cheap, dear = (np.asarray(drawn.levels)[half].mean() for half in np.split(chosen, 2))
    assert cheap < BUDGET - 0.1 < BUDGET + 0.1 < dear


def test_the_true_curves_have_no_error_and_no_reversed_pair(drawn) -> None:
    found = judge(drawn.response, rows(drawn), drawn.response, drawn.levels)
    assert found["error of the curve"] == found["RPR"] == 0


@pytest.mark.parametrize("table", [TABLE2, TABLE3])
def test_published_figures_stand_beside_rows_and_columns_that_are_measured(table) -> None:
    found = table.run(0, True) if table is TABLE2 else None
    if found is not None:
        assert set(table.published) <= set(found)
        assert all(set(cells) <= set(found[row]) for row, cells in table.published.items())
        assert {name for comparison in table.compare for name in comparison[1:]} <= set(found)
        top = found["true curves"]["future response"]
        assert found[LEAST]["future response"] < found[FLAT]["future response"] < top
        assert all(cells["future response"] <= top + 1e-9 for cells in found.values())
    assert all(0 <= cells["RPR"] <= 1 for cells in table.published.values())


def test_the_posterior_mean_is_that_of_drawn_curves_weighted_by_their_likelihood() -> None:
    """Chains against plain importance sampling, which works while a combination has few rows."""
    levels = (0, 20, 50, 100)
    drawn = draw(PromotionOptions(features=(2, 2), rows=240, levels=levels), seed=5)
    asked = drawn.frame.drop_duplicates(["c_1", "c_2"])
    found = posterior_mean(drawn.frame, asked, levels)
    prior = draw_curves(200_000, np.random.default_rng(1))[list(levels)]
    for n, (_, kind) in enumerate(asked.iterrows()):
        rows = drawn.frame[(drawn.frame["c_1"] == kind["c_1"]) & (drawn.frame["c_2"] == kind["c_2"])]
        p = prior[rows["level"].to_numpy()]
        likely = np.log(np.where(rows["response"].to_numpy()[:, None] == 1, p, 1 - p)).sum(axis=0)
        weight = np.exp(likely - likely.max())
        assert weight.sum() ** 2 / (weight**2).sum() > 300
        np.testing.assert_allclose(found[:, n], prior @ weight / weight.sum(), atol=0.012)


def test_the_figure_of_the_biased_assignment_has_every_fit_and_inverse_propensities_mend_the_additive_one() -> None:
    found = FIGURE3.run(0, True)
    assert {name for comparison in FIGURE3.compare for name in comparison[1:]} <= set(found)
    assert FIGURE3.primary is not None
    assert {FIGURE3.primary.row, FIGURE3.primary.other} <= set(found)
    assert all(found[row][DISTANCE] == 0 for row in found if row.startswith("random"))
    # Without IPS the additive form explains part of the assignment by a curve that hardly rises.
    assert found["biased: additive, one phase"][RISE] < found["biased, IPS: additive, one phase"][RISE] - 0.02


def test_a_start_that_is_given_is_learned_and_one_that_is_not_comes_from_the_lowest_level() -> None:
    drawn = draw(PromotionOptions(features=(2, 3), rows=600, levels=(0, 50, 100)), seed=2)
    frame = drawn.frame.drop(columns="propensity")
    training = TrainingConfig(learning_rate=3e-2, epochs=40, patience=20)
    told, alone, plain = (
        make(name, levels=drawn.levels, training=training, bias_epochs=60).fit(rows).curve(frame).response[0]
        for name, rows in (
            ("dipn_started", frame.assign(**{START: drawn.response[0]})),
            ("dipn_started", frame),
            ("dipn", frame),
        )
    )
    np.testing.assert_array_equal(alone, plain)
    wrong, right = (np.abs(found - drawn.response[0]).mean() for found in (plain, told))
    assert right < 0.01 < wrong
