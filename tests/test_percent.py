"""Incentives in percent of an order: the closed form against quadrature and simulation, and the terms of a side."""

import math
import pickle
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize

from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.campaign import Budget, Campaign, Percent, Terms
from shadowprice.campaign.percent import expected_payment
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.pacing.window import solve_window
from shadowprice.policy import Choices

SHARES = (None, Percent(share=10), Percent(share=20, least=3000))
CAPS = (0, 500, 1000)
OFFERS = ("none", "ten", "twenty")


def terms(**changes: object) -> Terms:
    fields = {"levels": (0, 1, 2), "offers": OFFERS, "amounts": CAPS, "percent": SHARES, "ordered": False}
    return Terms(**(fields | changes))


def by_quadrature(share: float, cap: float, least: float, mean: float, deviation: float) -> float:
    """E[min(share · X, cap); X ≥ least], integrated piece by piece over the normal log amount."""
    knots = [(math.log(amount) - mean) / deviation for amount in (least, cap / share) if amount > 0]
    edges = sorted({-12.0, 12.0, *(knot for knot in knots if abs(knot) < 12), *np.linspace(-12, 12, 25)})

    def paid(z: float) -> float:
        amount = math.exp(mean + deviation * z)
        return min(share * amount, cap) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    first = (math.log(least) - mean) / deviation if least > 0 else -math.inf
    return math.fsum(integrate.quad(paid, a, b)[0] for a, b in pairwise(edges) if a >= first)


@settings(max_examples=60, deadline=None)
@given(
    share=st.floats(0.005, 1.0),
    cap=st.floats(1.0, 50_000.0),
    least=st.one_of(st.just(0.0), st.floats(1.0, 100_000.0)),
    mean=st.floats(2.0, 12.0),
    deviation=st.floats(0.01, 3.0),
)
def test_the_closed_form_is_the_integral(share: float, cap: float, least: float, mean: float, deviation: float) -> None:
    found = float(expected_payment(share, cap, least, mean, deviation))
    assert found == pytest.approx(by_quadrature(share, cap, least, mean, deviation), rel=1e-7, abs=1e-9 * cap)
    assert 0 <= found <= cap


def test_the_closed_form_is_the_mean_of_simulated_payments() -> None:
    dice = np.random.default_rng(4)
    mean, deviation = dice.uniform(6, 10, 20), dice.uniform(0.1, 2.0, 20)
    share = Percent(share=15, least=4000)
    paid = share.paid(np.exp(mean + deviation * dice.normal(size=(40_000, 20))), 1200)
    error = paid.std(axis=0) / math.sqrt(len(paid))
    assert np.all(np.abs(expected_payment(0.15, 1200, 4000, mean, deviation) - paid.mean(axis=0)) < 4.5 * error + 0.02)


def test_without_a_deviation_the_amount_is_known_and_a_vanishing_one_has_its_limit() -> None:
    share, amounts = Percent(share=20, least=3000), np.array([1.0, 2999.0, 3000.0, 4321.0, 5000.0, 1e9])
    certain = expected_payment(0.2, 1000, 3000, np.log(amounts), 0.0)
    np.testing.assert_allclose(certain, share.paid(amounts, 1000), rtol=1e-13)
    # Away from the least spend the payment is continuous; at it half of the orders are below.
    close = expected_payment(0.2, 1000, 3000, np.log(amounts), 1e-9)
    np.testing.assert_allclose(np.delete(close, 2), np.delete(certain, 2), rtol=1e-6)
    assert close[2] == pytest.approx(certain[2] / 2, rel=1e-6)


def test_a_distribution_without_a_finite_mean_in_doubles_still_pays_at_most_the_cap() -> None:
    found = expected_payment(0.2, 1000, 0, np.array([8.0, 8.0, 700.0]), np.array([60.0, 10.0, 0.0]))
    assert np.isfinite(found).all()
    assert (found <= 1000).all()
    assert found[0] == pytest.approx(500, rel=0.02)
    assert found[2] == 1000


def test_an_order_below_the_least_spend_pays_nothing() -> None:
    assert SHARES[2] is not None
    assert SHARES[2].paid(np.array([2999.0, 3000.0, 60_000.0]), 1000).tolist() == [0, 600, 1000]


def test_the_cost_of_a_level_in_percent_is_the_expected_payment_times_the_response() -> None:
    response = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], dtype=np.float32)
    amounts = np.array([[8.0, 9.0], [0.5, 0.1]], dtype=np.float32)
    expected = [
        [0.0, 0.0],
        expected_payment(0.1, 500, 0, amounts[0], amounts[1]),
        expected_payment(0.2, 1000, 3000, amounts[0], amounts[1]),
    ]
    np.testing.assert_allclose(terms().cost(response, amounts), expected * response.astype(np.float64))
    # Amounts by level, as a model may learn them, and amounts that all accounts share.
    by_level = np.stack([np.stack([row] * 3) for row in amounts])
    np.testing.assert_array_equal(terms().cost(response, by_level), terms().cost(response, amounts))
    shared = terms().cost(response, amounts[:, [1, 1]])
    np.testing.assert_array_equal(shared[:, 1], terms().cost(response, amounts)[:, 1])
    # The response counts, whatever is paid for it.
    np.testing.assert_array_equal(terms().measure(response), response)
    assert terms().reserved == CAPS
    paid = terms().paid(np.array([1, 2, 2]), np.array([1.0, 1.0, 0.0]), np.array([312.0, 0.0, 0.0]))
    assert paid.tolist() == [312, 0, 0]


def test_a_side_whose_amounts_are_not_known_is_refused() -> None:
    with pytest.raises(InvalidInput, match="in percent needs outcomes with amounts"):
        terms().cost(np.ones((3, 1)))
    with pytest.raises(InvalidInput, match="what was paid"):
        terms().paid(np.array([1]), np.ones(1), None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"percent": SHARES[:2]}, "one entry per level"),
        ({"amounts": (0, 0, 1000)}, "at least 1 minor unit"),
        ({"cost_basis": "on_grant"}, "paid on response"),
        ({"most_units": 2}, "for one unit"),
        ({"costs": (0, 500, 900)}, "must be its cap"),
        ({"ordered": True}, "set ordered to false"),
        ({"ordered": True, "percent": (None, None, SHARES[1])}, "set ordered to false"),
        ({"levels": CAPS}, "of levels 0, 1"),
    ],
)
def test_terms_that_cannot_be_are_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        terms(**changes)


@pytest.mark.parametrize("share", [0, -1, 100.5, math.nan, True, "20"])
def test_a_share_is_above_0_and_at_most_100(share: object) -> None:
    with pytest.raises(InvalidInput, match="above 0 and at most 100"):
        Percent(share=share)  # type: ignore[arg-type]


def test_a_least_spend_is_not_negative() -> None:
    with pytest.raises(InvalidInput, match="not negative"):
        Percent(share=20, least=-1)


def test_terms_are_written_named_and_read_again() -> None:
    made = terms(ordered=True, percent=(None, SHARES[1], Percent(share=20)))
    assert Terms.from_dict(made.to_dict()) == made
    assert made.to_dict()["percent"] == [None, {"share": 10, "least": 0}, {"share": 20, "least": 0}]
    assert terms().names(Currency()) == ("none", "10 % up to $5.00", "20 % up to $10.00 from $30.00")
    alike = terms(percent=(None, Percent(share=20), Percent(share=20)), amounts=(0, 500, 500))
    assert alike.names(Currency())[1:] == ("20 % up to $5.00 (ten)", "20 % up to $5.00 (twenty)")
    assert "percent" not in Terms(levels=(0, 100)).to_dict()


def test_a_mean_account_has_the_amounts_of_all_responses() -> None:
    dice = np.random.default_rng(0)
    response = dice.uniform(0.1, 0.9, (2, 5)).astype(np.float32)
    amounts = np.stack([dice.uniform(7, 9, 5), dice.uniform(0.1, 1, 5)]).astype(np.float32)
    mean = Curves(np.array([0, 1]), response, amounts=amounts).mean()
    assert mean.amounts is not None
    for level in (0, 1):
        share = response[level].astype(float) / response[level].sum()
        log = np.concatenate(
            [amounts[0, i] + amounts[1, i] * dice.normal(size=int(400_000 * share[i])) for i in range(5)]
        )
        assert mean.amounts[:, level, 0] == pytest.approx([log.mean(), log.std()], abs=0.006)


def test_the_solve_is_the_linear_program_of_expected_payments() -> None:
    dice = np.random.default_rng(7)
    n = 60
    response = np.sort(dice.uniform(0.02, 0.5, (3, n)), axis=0).astype(np.float32)
    amounts = np.stack([dice.uniform(7.5, 9.5, n), dice.uniform(0.1, 1.2, n)]).astype(np.float32)
    curves = Curves(np.array([0, 1, 2]), response, amounts=amounts)
    budget = 3000
    start = datetime(2026, 5, 1, tzinfo=UTC)
    total = Budget(name="b", limit=budget)
    campaign = Campaign(name="percent", sides={"customer": terms()}, budget=total, starts_at=start)
    solved = solve_window(campaign, {"customer": curves}, {"customer": float(n)}, budget).allocation
    cost = response * np.array(
        [
            np.zeros(n),
            *(
                expected_payment(each.share / 100, cap, each.least, *amounts)
                for each, cap in zip(SHARES[1:], CAPS[1:], strict=True)
            ),
        ]
    )
    program = optimize.linprog(
        -response.astype(float).ravel(),
        A_ub=cost.ravel()[None],
        b_ub=[budget],
        A_eq=np.tile(np.eye(n), 3),
        b_eq=np.ones(n),
        bounds=(0, 1),
    )
    assert solved.primal == pytest.approx(-program.fun, rel=1e-6)
    assert solved.spend[0] == pytest.approx(budget, rel=1e-6)
    # The rule that serves decides by the same costs.
    level = Choices.marked(campaign, "customer", curves).decide(solved.prices, solved.tie_share, range(n)).level
    assert np.sum(np.argmax(response - solved.prices[0] * cost, axis=0) != level) <= 1


def test_shards_of_accounts_have_the_costs_of_the_whole(tmp_path: Path) -> None:
    dice, n = np.random.default_rng(8), 300
    response = dice.uniform(0.02, 0.5, (3, n)).astype(np.float32)
    amounts = np.stack([dice.uniform(7.5, 9.5, n), dice.uniform(0.1, 1.2, n)]).astype(np.float32)
    np.save(tmp_path / "response.npy", response)
    mapped = np.load(tmp_path / "response.npy", mmap_mode="r")
    total = Budget(name="b", limit=100)
    start = datetime(2026, 5, 1, tzinfo=UTC)
    campaign = Campaign(name="percent", sides={"customer": terms()}, budget=total, starts_at=start)
    expected = terms().cost(response, amounts)
    for path in (None, tmp_path / "response.npy"):
        curves = Curves(np.array([0, 1, 2]), mapped, path=path, amounts=amounts)
        problem = CampaignProblem(campaign, {"customer": curves})
        # Another process is sent a part, and cuts it again.
        parts = [pickle.loads(pickle.dumps(part)) for part in problem.shards(3)]
        found = [part.arrays(np.s_[:], ["cost"])["cost"] for part in parts]
        np.testing.assert_array_equal(np.concatenate(found, axis=1), expected)
        held = parts[1].held()
        np.testing.assert_array_equal(held.arrays(np.array([2, 0]), ["cost"])["cost"], found[1][:, [2, 0]])
