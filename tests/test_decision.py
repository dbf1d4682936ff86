"""The one rule for deciding, against a slow reading of its definition."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shadowprice.allocation import Problem, Resource, solve
from shadowprice.decision import NOTHING, TIE_TOLERANCE, Decision, Fitted, decide, fit_budget, uniform
from shadowprice.errors import InvalidInput
from shadowprice.policy import Choices


def slowly(
    value: np.ndarray, cost: np.ndarray, prices: np.ndarray, share: float, names: list[str], allowed: np.ndarray
) -> list[tuple[int, float]]:
    """(level, propensity) of each request, one request and one level at a time."""
    answers = []
    for i, name in enumerate(names):
        levels = [j for j in range(value.shape[0]) if allowed[j, i]]
        charge = {j: sum(prices[k] * cost[k, j, i] for k in range(len(prices))) for j in levels}
        score = {j: value[j, i] - charge[j] for j in levels}
        best = max(score.values())
        tied = [j for j in levels if best - score[j] < 1e-12]
        order = sorted(tied, key=lambda j: (charge[j] if prices.any() else cost[:, j, i].sum(), j))
        cheap, dear = order[0], order[-1]
        if charge[dear] - charge[cheap] < 1e-12:
            answers.append((cheap, 1.0))
        elif uniform(name) < share:
            answers.append((dear, share))
        else:
            answers.append((cheap, 1 - share))
    return answers


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 12), st.integers(1, 3), st.booleans())
def test_the_vectorized_rule_is_the_definition(seed: int, depth: int, requests: int, budgets: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    # Quarters and small whole numbers are exact in floating point: their ties are real ties.
    value = rng.integers(0, 9, (depth, requests)) / 4 if ties else rng.random((depth, requests))
    cost = rng.integers(-2, 9, (budgets, depth, requests)).astype(float)
    prices = rng.integers(0, 3, budgets) / 4 if ties else rng.random(budgets)
    allowed = rng.random((depth, requests)) < 0.7
    allowed[rng.integers(0, depth, requests), np.arange(requests)] = True
    names = [f"{seed}-{i}" for i in range(requests)]
    decision = decide(value, cost, prices, 0.3, names, allowed)
    expected = slowly(value, cost, prices, 0.3, names, allowed)
    for i, (level, propensity) in enumerate(expected):
        took = decision.level[i]
        # Levels that tie in score and in cost are one choice; the rule may name either.
        same = value[took, i] == value[level, i] and np.allclose(prices @ cost[:, took, i], prices @ cost[:, level, i])
        assert took == level or same
        assert decision.propensity[i] == pytest.approx(propensity)
        assert allowed[took, i]


def test_one_budget_may_be_given_without_its_axis() -> None:
    value, cost = np.array([[0.1, 0.2], [0.3, 0.3]]), np.array([[0.0, 0.0], [10.0, 30.0]])
    flat, full = decide(value, cost, 0.01, 0.5, [1, 2]), decide(value, cost[None], [0.01], 0.5, [1, 2])
    np.testing.assert_array_equal(flat.level, [1, 0])
    np.testing.assert_array_equal(flat.level, full.level)


def test_the_same_id_in_every_spelling_breaks_a_tie_the_same_way() -> None:
    value, cost = np.array([[0.0], [1.0]]), np.array([[0.0], [10.0]])
    for name in ("42", "café", "r-1"):
        levels = {
            int(decide(value, cost, [0.1], 0.5, [given]).level[0])
            for given in (name, name.encode(), np.str_(name), np.bytes_(name.encode()))
        }
        assert len(levels) == 1
    assert uniform(42) == uniform("42") == uniform(np.int64(42)) == uniform(b"42")


def test_a_tie_is_broken_the_same_way_in_every_process() -> None:
    program = "from shadowprice.decision import uniform; print([uniform(f'r{i}') for i in range(5)])"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert seen == {f"{[uniform(f'r{i}') for i in range(5)]}\n"}


def test_the_hash_is_uniform_and_independent_between_neighboring_ids() -> None:
    numbers = np.array([uniform(f"request-{i:08d}") for i in range(20_000)])
    counts, _ = np.histogram(numbers, bins=50, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-3
    pairs, _, _ = np.histogram2d(numbers[:-1:2], numbers[1::2], bins=10, range=[[0, 1], [0, 1]])
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3
    assert numbers.min() >= 0
    assert numbers.max() < 1


def test_the_dearer_level_is_taken_as_often_as_the_tie_share_says() -> None:
    requests = 20_000
    value, cost = np.tile([[0.0], [1.0]], requests), np.tile([[0.0], [10.0]], requests)
    decision = decide(value, cost, [0.1], 0.3, [f"r{i}" for i in range(requests)])
    assert decision.tied.all()
    taken = int(decision.level.sum())
    assert stats.binomtest(taken, requests, 0.3).pvalue > 1e-3
    np.testing.assert_allclose(decision.propensity, np.where(decision.level == 1, 0.3, 0.7))


def expected_spend(value: np.ndarray, cost: np.ndarray, price: float, share: float) -> float:
    """Mean over the tie hash: the cheap and the dear answer, weighted by the share."""
    columns = np.arange(value.shape[1])
    cheap: Decision = decide(value, cost, [price], 0.0, columns)
    dear: Decision = decide(value, cost, [price], 1.0, columns)
    paid = (1 - share) * cost[cheap.level, columns] + share * cost[dear.level, columns]
    return float(paid.sum())


def test_duplicated_users_spend_the_budget_in_expectation_where_plain_argmax_misses_it() -> None:
    rng = np.random.default_rng(2)
    kinds = np.sort(rng.random((6, 8)), axis=0)  # eight kinds of users, S1's small synthetic setting
    value = kinds[:, rng.integers(0, 8, 4000)]
    cost = np.repeat(np.array([0.0, 5, 10, 20, 40, 80])[:, None], 4000, axis=1)
    worst = 0.0
    for mean in (3.0, 11.0, 25.0):
        solved = solve(Problem(value, [Resource.per_account("money", cost, mean)]))
        spend = expected_spend(value, cost, float(solved.prices[0]), solved.tie_share)
        assert spend == pytest.approx(mean * 4000, rel=1e-6)
        plain = (value - solved.prices[0] * cost).argmax(axis=0)
        worst = max(worst, abs(cost[plain, np.arange(4000)].mean() / mean - 1))
        # And with real ids the hash comes within what 4000 coin flips allow.
        drawn = decide(value, cost, solved.prices, solved.tie_share, [f"u{i}" for i in range(4000)])
        step = expected_spend(value, cost, float(solved.prices[0]), 1.0) - expected_spend(
            value, cost, float(solved.prices[0]), 0.0
        )
        deviation = step / drawn.tied.sum() * np.sqrt(drawn.tied.sum() / 4)
        assert abs(cost[drawn.level, np.arange(4000)].sum() - spend) < 4 * deviation
    assert worst > 0.05


def test_levels_closer_than_the_tolerance_tie_and_others_do_not() -> None:
    cost = np.array([[0.0], [10.0]])
    for apart, tied in ((TIE_TOLERANCE / 100, True), (TIE_TOLERANCE * 100, False)):
        value = np.array([[0.0], [1.0 + apart]])
        assert decide(value, cost, [0.1], 0.5, ["a"]).tied[0] == tied


def test_where_money_is_free_the_best_level_wins_and_ties_go_to_the_cheaper() -> None:
    value = np.array([[0.5, 0.2], [0.5, 0.3], [0.4, 0.3]])
    cost = np.array([[9.0, 1.0], [3.0, 7.0], [1.0, 8.0]])
    decision = decide(value, cost, [0.0], 1.0, ["a", "b"])
    np.testing.assert_array_equal(decision.level, [1, 1])
    assert not decision.tied.any()
    np.testing.assert_array_equal(decision.propensity, 1.0)


def test_no_requests_get_no_answers() -> None:
    empty = decide(np.zeros((3, 0)), np.zeros((3, 0)), [1.0], 0.5, [])
    assert empty.level.shape == empty.propensity.shape == empty.tied.shape == (0,)


def test_answers_do_not_depend_on_the_batch_they_came_in() -> None:
    rng = np.random.default_rng(5)
    value, cost = rng.integers(0, 4, (4, 300)) / 4, rng.integers(0, 4, (4, 300)).astype(float)
    names = [f"r{i}" for i in range(300)]
    together = decide(value, cost, [0.25], 0.5, names)
    assert together.tied.any()
    for i in range(300):
        alone = decide(value[:, [i]], cost[:, [i]], [0.25], 0.5, names[i : i + 1])
        assert (alone.level[0], alone.propensity[0]) == (together.level[i], together.propensity[i])


VALUE, COST = np.ones((2, 3)), np.ones((2, 3))


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("value", lambda: decide(VALUE[0], COST, [1.0], 0.5, "abc")),
        ("cost", lambda: decide(VALUE, COST[:1], [1.0], 0.5, "abc")),
        ("cost", lambda: decide(VALUE, COST, [1.0, 2.0], 0.5, "abc")),
        ("prices", lambda: decide(VALUE, COST, [np.nan], 0.5, "abc")),
        ("prices", lambda: decide(VALUE, COST, [np.inf], 0.5, "abc")),
        ("tie_share", lambda: decide(VALUE, COST, [1.0], 1.5, "abc")),
        ("tie_share", lambda: decide(VALUE, COST, [1.0], np.nan, "abc")),
        ("request_ids", lambda: decide(VALUE, COST, [1.0], 0.5, "ab")),
        ("allowed", lambda: decide(VALUE, COST, [1.0], 0.5, "abc", np.ones((2, 2)))),
        ("allowed", lambda: decide(VALUE, COST, [1.0], 0.5, "abc", np.array([[1, 1, 0]] * 2))),
    ],
)
def test_a_wrong_argument_is_named(field: str, call: Callable[[], Decision]) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field
    if field == "allowed" and caught.value.rows:
        assert caught.value.rows == (2,)


def exact_propensities(
    value: np.ndarray,
    cost: np.ndarray,
    price: float,
    share: float,
    allowed: np.ndarray,
    exploration: float,
    weights: list[float],
) -> np.ndarray:
    """(J,): ε·w/Σ w + (1 − ε)·π of one request, π from :func:`slowly` at either side of the tie."""
    may = allowed[:, None]
    total = sum(weight for weight, able in zip(weights, allowed, strict=True) if able)
    found = np.array([exploration * w / total if able else 0.0 for w, able in zip(weights, allowed, strict=True)])
    for name_share, weight in ((1.0, share), (0.0, 1 - share)):
        ((level, _),) = slowly(value[:, None], cost[None, :, None], np.array([price]), name_share, ["a"], may)
        found[level] += (1 - exploration) * weight
    return found


@pytest.mark.parametrize(
    ("exploration", "weights"), [(0.05, None), (0.4, [0.2, 5.0, 1.0, 3.0]), (1.0, None), (1.0, [7.0, 0.5, 2.0, 1.0])]
)
def test_propensities_with_exploration_are_exact_by_enumeration_of_request_ids(
    exploration: float, weights: list[float] | None
) -> None:
    # Levels 0 and 2 tie for the best at price 0.25, level 1 is worse, level 3 is not allowed.
    value, cost = np.array([1.0, 0.75, 2.0, 9.0]), np.array([0.0, 2.0, 4.0, 1.0])
    allowed = np.array([True, True, True, False])
    ids = [f"request-{i}" for i in range(40_000)]
    found = decide(
        np.tile(value[:, None], len(ids)),
        np.tile(cost[:, None], len(ids)),
        [0.25],
        0.3,
        ids,
        np.tile(allowed[:, None], len(ids)),
        exploration=exploration,
        weights=weights,
    )
    law = weights or [1.0] * 4
    expected = exact_propensities(value, cost, 0.25, 0.3, allowed, exploration, law)
    assert expected.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.propensity, expected[found.level], rtol=1e-12)
    counts = np.bincount(found.level, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], expected[:3] * len(ids)).pvalue > 1e-3
    assert stats.binomtest(int(found.explored.sum()), len(ids), exploration).pvalue > 1e-3
    assert not (found.explored & found.tied).any()
    # Requests that explore are spread by the weights of what is allowed, tied or not.
    explored = np.bincount(found.level[found.explored], minlength=4)[:3]
    assert stats.chisquare(explored, explored.sum() * np.array(law[:3]) / sum(law[:3])).pvalue > 1e-3


def test_exploring_leaves_the_other_requests_as_they_were_and_a_request_always_the_same() -> None:
    rng = np.random.default_rng(4)
    value, cost = rng.random((5, 3000)), np.sort(rng.random((5, 3000)), axis=0)
    ids = [f"r{i}" for i in range(3000)]
    plain = decide(value, cost, [0.8], 0.5, ids)
    tried = decide(value, cost, [0.8], 0.5, ids, exploration=0.1)
    np.testing.assert_array_equal(tried.level[~tried.explored], plain.level[~tried.explored])
    more = decide(value, cost, [0.8], 0.5, ids, exploration=0.2)
    assert (more.explored | ~tried.explored).all()  # who explores at a share explores at a larger one
    one = [decide(value[:, [i]], cost[:, [i]], [0.8], 0.5, [ids[i]], exploration=0.1).level[0] for i in range(3000)]
    np.testing.assert_array_equal(one, tried.level)


def test_the_numbers_of_two_purposes_are_independent() -> None:
    ids = [f"r{i}" for i in range(20_000)]
    pairs, _, _ = np.histogram2d(
        [uniform(i) for i in ids], [uniform(i, b"explore") for i in ids], bins=10, range=[[0, 1], [0, 1]]
    )
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


def test_a_share_that_is_no_probability_is_refused() -> None:
    with pytest.raises(InvalidInput, match="exploration"):
        decide([[0.1]], [[0.0]], [0.0], 0.0, ["a"], exploration=1.5)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.inf], [[1.0], [1.0]]])
def test_weights_that_let_a_level_go_are_refused(weights: list[float]) -> None:
    with pytest.raises(InvalidInput, match="weights: must be 2 positive numbers"):
        decide([[0.1], [0.2]], [[0.0], [1.0]], [0.0], 0.0, ["a"], exploration=0.1, weights=weights)


@pytest.mark.parametrize("exploration", [0.0, 0.3])
@pytest.mark.parametrize("left", [-5, 0, 40, 60, 130])
@pytest.mark.parametrize("levels", [(0, 50, 130), (20, 60, 100)])
def test_the_propensity_under_a_nearly_exhausted_budget_is_the_frequency_over_request_ids(
    levels: tuple[int, ...], left: int, exploration: float
) -> None:
    # The two dearer levels tie, so that the answer depends on the tie, on exploration, and on what fits.
    value, cost = np.array([0.1, 1.0, 1.7]), np.array([0.0, 3.0, 10.0])
    ids = [f"request-{i}" for i in range(20_000)]
    found = decide(
        np.tile(value[:, None], len(ids)),
        np.tile(cost[:, None], len(ids)),
        [0.1],
        0.35,
        ids,
        exploration=exploration,
    )
    shares = found.policy.propensities().T.tolist()
    given = [fit_budget(int(found.level[i]), shares[i], levels, left) for i in range(len(ids))]
    answers = np.array([each.level for each in given])
    for answer in np.unique(answers):
        logged = {round(each.propensity, 12) for each in given if each.level == answer}
        assert len(logged) == 1, "one policy and one budget give an answer one probability"
        assert stats.binomtest(int((answers == answer).sum()), len(ids), min(logged.pop(), 1.0)).pvalue > 1e-4
        assert answer == NOTHING or levels[answer] <= max(left, 0)
    whole = {NOTHING: 1 - sum(given[0].probabilities), **dict(enumerate(given[0].probabilities))}
    assert sum(whole.values()) == pytest.approx(1)
    assert all(whole[each.level] == pytest.approx(each.propensity) for each in given[:200])


def test_a_budget_that_covers_every_level_changes_nothing() -> None:
    assert fit_budget(1, (0.2, 0.5, 0.3), (0, 50, 130), 130) == Fitted(1, 0.5, (0.2, 0.5, 0.3))
    assert fit_budget(0, (0.2, 0.8), (0, 50), 49) == Fitted(0, 1.0, (1.0, 0.0))


def test_a_level_that_does_not_fit_is_replaced_by_nothing_where_the_free_level_is_not_allowed() -> None:
    shares, most = (0.0, 0.25, 0.75), (0, 50, 130)
    assert fit_budget(2, shares, most, 60, unpaid_allowed=False) == Fitted(NOTHING, 0.75, (0.0, 0.25, 0.0))
    assert fit_budget(1, shares, most, 60, unpaid_allowed=False) == Fitted(1, 0.25, (0.0, 0.25, 0.0))
    assert fit_budget(1, shares, most, 0, unpaid_allowed=False) == Fitted(NOTHING, 1.0, (0.0, 0.0, 0.0))


def test_each_request_may_explore_with_a_probability_of_its_own() -> None:
    rng = np.random.default_rng(11)
    value, cost, ids = rng.random((4, 300)), rng.random((4, 300)), [f"q{row}" for row in range(300)]
    share = rng.choice([0.0, 0.3, 1.0], 300)
    mixed = decide(value, cost, [0.5], 0.5, ids, exploration=share)
    for epsilon in (0.0, 0.3, 1.0):
        rows = share == epsilon
        alone = decide(value, cost, [0.5], 0.5, ids, exploration=epsilon)
        assert mixed.level[rows].tolist() == alone.level[rows].tolist()
        assert mixed.propensity[rows].tolist() == alone.propensity[rows].tolist()
        assert mixed.explored[rows].tolist() == alone.explored[rows].tolist()
        assert (mixed.policy.propensities() == alone.policy.propensities())[:, rows].all()
    with pytest.raises(InvalidInput, match="shape"):
        decide(value, cost, [0.5], 0.5, ids, exploration=share[:5])


def test_scores_are_the_same_with_and_without_an_axis_of_budgets() -> None:
    rng = np.random.default_rng(6)
    value, cost = rng.random((4, 50)), rng.random((4, 50))
    scores = Choices(value, cost).scores([0.7])
    np.testing.assert_allclose(scores, value - 0.7 * cost)
    np.testing.assert_array_equal(scores, Choices(value, cost[None]).scores([0.7]))
    np.testing.assert_array_equal(Choices(value, cost).decide([0.7], 0.5, range(50)).level, scores.argmax(axis=0))
