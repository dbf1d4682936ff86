"""The verdicts of the page on pacing."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.pacing.days import PACERS, PRIMARY, goals, significance, verdict


def days(seed: int, ahead: float, count: int = 12) -> dict[str, list[dict[str, float]]]:
    random = np.random.default_rng(seed)
    luck = random.normal(size=count)
    return {
        name: [
            {
                "spend": -0.001,
                "share": 0.995 + 1e-4 * (luck[k] + (ahead if name in ("closing", "hourly") else 0) + noise),
            }
            for k, noise in enumerate(random.normal(size=count))
        ]
        for name in PACERS
    }


def test_the_primary_comparison_stands_alone_and_the_others_are_adjusted() -> None:
    found = {"stationary": days(0, 2.0), "noon_shock": days(1, 0.7)}
    tests = significance(found)
    share = {name: [row["share"] for row in rows] for name, rows in found["stationary"].items()}
    alone = stats.ttest_rel(share["closing"], share["pi"]).pvalue
    assert tests[PRIMARY][1] == pytest.approx(alone)
    assert "`closing` is better than `pi`" in verdict(tests)
    # Seven comparisons a day: two judged pacers against four others each, and each other once.
    assert len(tests) == 14
    static = tests["stationary", "closing", "static"][1]
    assert static > stats.ttest_rel(share["closing"], share["static"]).pvalue


def test_a_goal_that_only_an_unadjusted_test_meets_is_missed() -> None:
    # Of 20 drawn days of equal pacers one in twenty or so would be called better without an adjustment.
    missed = [
        goals(
            {"stationary": days(seed, 0.0), "noon_shock": days(seed + 99, 0.0)},
            significance({"stationary": days(seed, 0.0), "noon_shock": days(seed + 99, 0.0)}),
        )
        for seed in range(10)
    ]
    better = [line for page in missed for line in page.splitlines() if "better than static" in line]
    assert sum("| met" in line for line in better) <= 1
