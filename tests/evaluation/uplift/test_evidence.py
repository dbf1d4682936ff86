"""Evidence of generated trials: coverage of its intervals, its verdicts, and independent references."""

from collections import Counter

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.stats.multitest import multipletests

from benchmarks.evidence import covered, evidence_in, incentives_of
from benchmarks.trials import Shape, draw
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.shares import shares

LEVELS = np.array([0, 250, 500, 1000])


def evidence(level: np.ndarray, y: np.ndarray, propensity: np.ndarray, **more: object) -> SideEvidence:
    shared = shares(level, propensity, LEVELS.size)
    weight = None if shared.uniform else 1 / propensity
    rows = LevelMeans(level, LEVELS.size, weight=weight)
    return side_evidence("customer", LEVELS, rows, y, LEVELS[level] * y, shared, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "accounts", "effect"), [("bonus", 2000, 6), ("gift", 5000, 8), ("email", 2000, 2)])
def test_the_intervals_cover_the_truth_in_93_to_97_percent_of_trials(
    shape: Shape, accounts: int, effect: float
) -> None:
    hits: dict[str, list[bool]] = {}
    for seed in range(300):
        trial = draw(shape, seed=seed, accounts=accounts, effect=effect)
        for name, each in covered(trial, evidence_in(trial)).items():
            hits.setdefault(name, []).extend(each)
    for name in ("difference", "relative", "cost of one extra"):
        assert 0.93 <= np.mean(hits[name]) <= 0.97, (name, np.mean(hits[name]))


@pytest.mark.parametrize("shape", ["bonus", "gift", "email"])
def test_no_effect_is_called_not_identified_in_at_least_90_percent_of_trials(shape: Shape) -> None:
    verdicts = Counter(evidence_in(draw(shape, seed=seed, accounts=2000, effect=0)).verdict for seed in range(200))
    assert verdicts["not identified"] >= 0.9 * 200


@pytest.mark.parametrize(("shape", "draws", "least"), [("bonus", 30, 0.85), ("email", 10, 1.0)])
def test_the_effects_of_the_real_trials_are_identified_at_their_sizes(shape: Shape, draws: int, least: float) -> None:
    found = [evidence_in(draw(shape, seed=seed)).verdict for seed in range(draws)]
    assert found.count("identified") >= least * draws


def test_the_trend_is_the_slope_of_least_squares_and_the_comparisons_are_holms() -> None:
    trial = draw("bonus", seed=3, accounts=4000, effect=2)
    found, amounts = evidence_in(trial), incentives_of(trial)
    fit = sm.OLS(trial.response, sm.add_constant(amounts[trial.level].astype(float))).fit(cov_type="HC2")
    assert found.slope is not None
    assert found.slope.value == pytest.approx(fit.params[1], rel=1e-6)
    assert found.slope.high - found.slope.value == pytest.approx(1.96 * fit.bse[1], rel=0.01)
    assert found.trend_p == pytest.approx(fit.pvalues[1], rel=0.1)
    assert float(np.dot(found.trend, [each.response.value for each in found.levels])) == pytest.approx(fit.params[1])
    raw = [
        sm.stats.ttest_ind(
            trial.response[trial.level == j].astype(float),
            trial.response[trial.level == 0].astype(float),
            usevar="unequal",
        )[1]
        for j in (1, 2, 3)
    ]
    holm = multipletests(raw, method="holm")[1]
    assert [each.p_value for each in found.levels[1:]] == pytest.approx(list(holm), rel=0.05)


def test_the_cost_of_one_extra_response_is_extra_money_over_extra_responses() -> None:
    trial = draw("bonus", seed=1, accounts=14_000, effect=3)
    found = evidence_in(trial)
    rate = np.array([trial.response[trial.level == j].mean() for j in range(4)])
    top = found.levels[3]
    assert top.cost.value == pytest.approx(99_700 * rate[3])
    assert top.cost_each is not None
    assert top.cost_each.value == pytest.approx(99_700 * rate[3] / (rate[3] - rate[0]))
    assert top.relative is not None
    assert top.relative.value == pytest.approx(rate[3] / rate[0] - 1)
    assert found.levels[0].difference is None
    assert found.levels[0].why_no_cost == ""


def test_where_the_extra_responses_may_be_none_there_is_a_reason_and_no_cost() -> None:
    found = evidence_in(draw("bonus", seed=0, accounts=1000, effect=0))
    for each in found.levels[1:]:
        assert each.cost_each is None
        assert each.why_no_cost in (
            "the extra responses may be none",
            "it brings fewer responses, not more",
        )


def test_rows_that_were_given_more_where_less_responds_are_weighted_back() -> None:
    rng = np.random.default_rng(0)
    active = rng.random(40_000) < 0.5
    chance = np.where(active[:, None], [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
    level = (rng.random(40_000)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    y = (rng.random(40_000) < np.where(active, 0.5, 0.1) + 0.02 * level).astype(float)
    found = evidence(level, y, chance[np.arange(40_000), level])
    assert found.weighted
    assert found.verdict == "identified"
    assert found.levels[3].difference is not None
    assert found.levels[3].difference.low < 0.06 < found.levels[3].difference.high
    naive = evidence(level, y, np.full(40_000, 0.25))
    assert naive.verdict == "wrong way"


def test_an_effect_that_rises_and_falls_again_is_found_without_a_trend() -> None:
    rng = np.random.default_rng(1)
    level = rng.integers(0, 4, 20_000)
    y = (rng.random(20_000) < np.array([0.2, 0.3, 0.3, 0.2])[level]).astype(float)
    # The same responses at each of two levels, so that the slope is 0.
    y[level == 3], y[level == 2] = (
        np.resize(y[level == 0], (level == 3).sum()),
        np.resize(y[level == 1], (level == 2).sum()),
    )
    rows = LevelMeans(level, 4)
    found = side_evidence("customer", [0, 1, 2, 3], rows, y, level * y, shares(level, np.full(20_000, 0.25), 4))
    assert (found.trend_p or 0.0) > 0.05
    assert found.verdict == "identified"
    assert found.shown.level in (1, 2)


def test_a_response_that_falls_is_the_wrong_way() -> None:
    rng = np.random.default_rng(2)
    level = rng.integers(0, 4, 8000)
    y = (rng.random(8000) < 0.5 - 0.04 * level).astype(float)
    found = evidence(level, y, np.full(8000, 0.25))
    assert found.verdict == "wrong way"
    assert found.shown.level == 3
    assert found.levels[3].why_no_cost == "it brings fewer responses, not more"


def test_a_log_without_a_draw_identifies_nothing_however_large_the_difference() -> None:
    level = np.repeat([0, 1, 2, 3], 500)
    y = (np.random.default_rng(3).random(2000) < 0.2 * level).astype(float)
    found = evidence(level, y, np.ones(2000))
    assert found.verdict == "not identified"
    assert all(each.difference is None for each in found.levels)
    assert found.levels[3].why_no_cost == "levels were not drawn at random"


def test_a_level_without_rows_is_left_out_and_the_next_one_is_the_lowest() -> None:
    rng = np.random.default_rng(4)
    level = rng.integers(1, 4, 6000)
    y = (rng.random(6000) < 0.1 + 0.05 * level).astype(float)
    found = evidence(level, y, np.full(6000, 1 / 3))
    assert found.lowest.level == 1
    assert np.isnan(found.levels[0].response.value)
    assert found.levels[3].difference is not None
    assert found.levels[3].difference.low < 0.1 < found.levels[3].difference.high
    assert found.verdict == "identified"
