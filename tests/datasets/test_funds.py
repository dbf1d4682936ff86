"""The generated delivery of funds: its truth, its graph, and tables that hold what was drawn."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from shadowprice.allocation import solve_demands
from shadowprice.datasets import load
from shadowprice.datasets.funds import (
    LEAST,
    FundOptions,
    Funds,
    _censored_amounts,
    _offers,
    deliver_again,
    draw,
    mean_amount,
    mean_log_amount,
)
from shadowprice.errors import InvalidInput
from shadowprice.tables import labeled


@pytest.fixture(scope="module")
def drawn() -> Funds:
    return draw(FundOptions(users=6000, deliveries=8), seed=2)


@pytest.fixture(scope="module")
def censored() -> Funds:
    return draw(FundOptions(users=6000, deliveries=8, censored=True), seed=2)


@pytest.mark.parametrize("name", ["drawn", "censored"])
def test_outcomes_follow_the_truth(name: str, request: pytest.FixtureRequest) -> None:
    drawn: Funds = request.getfixturevalue(name)
    rows = drawn.deliveries
    place = np.searchsorted(drawn.users["account_id"], rows["account_id"])
    level = rows["level"].to_numpy()
    for column, truth in (("clicked", drawn.click), ("response", drawn.convert)):
        p = truth[level, place].astype(float)
        error = np.sqrt((p * (1 - p)).sum())
        assert abs(rows[column].sum() - p.sum()) < 4 * error
    assert (rows["clicked"] >= rows["response"]).all()
    bought = rows["response"].to_numpy() == 1
    v = np.log1p(rows["amount"].to_numpy()[bought] / 100)
    mu, sigma = (each[level, place][bought].astype(float) for each in (drawn.mu, drawn.sigma))
    below = stats.norm.cdf((LEAST - mu) / sigma)
    rank = (stats.norm.cdf((v - mu) / sigma) - below) / (1 - below)
    assert stats.kstest(rank, "uniform").pvalue > 1e-3
    assert rows["amount"][bought].min() >= 100


@pytest.mark.parametrize(("mu", "sigma"), [(0.5, 0.8), (3.0, 1.2)])
def test_the_mean_amount_is_the_integral(mu: float, sigma: float) -> None:
    def density(v: float) -> float:
        return float(np.expm1(v) * stats.norm.pdf(v, mu, sigma) / stats.norm.sf(LEAST, mu, sigma))

    expected = integrate.quad(density, LEAST, mu + 12 * sigma, limit=200)[0]
    assert mean_amount(np.array([mu]), np.array([sigma]))[0] == pytest.approx(expected, rel=1e-8)
    log = stats.truncnorm.mean((LEAST - mu) / sigma, np.inf, mu, sigma)
    assert mean_log_amount(np.array([mu]), np.array([sigma]))[0] == pytest.approx(log, rel=1e-10)


def test_who_clicks_buys_as_often_as_the_latent_amount_reaches_the_least_purchase(censored: Funds) -> None:
    """Given a click the latent amount alone decides: of a fund bought in lots nearly always, of the other of its risk
    level half the time; and clicks say nothing of it."""
    enough = stats.norm.sf(LEAST, censored.mu.astype(float), censored.sigma.astype(float))
    np.testing.assert_allclose(censored.convert, censored.click * enough, rtol=2e-4)
    assert (enough[::2].mean(axis=1) > 0.99).all()
    assert (np.abs(enough[1::2].mean(axis=1) - 0.5) < 0.1).all()
    assert (censored.sigma == censored.sigma[:, :1]).all()
    for fund in range(8):
        assert abs(np.corrcoef(censored.click[fund], censored.mu[fund])[0, 1]) < 4 / np.sqrt(6000)
    best = np.bincount(censored.value.argmax(axis=0), minlength=8) / 6000
    assert best.max() < 0.3
    assert best.min() > 0.04


@pytest.mark.parametrize(("funds", "brought"), [(4, 6.0), (8, 6.0), (4, 1.5), (4, 0.01), (8, 100.0)])
def test_of_a_user_without_wealth_age_and_interest_every_fund_brings_the_same(funds: int, brought: float) -> None:
    """The click's chance times the integral of the latent amount above the least purchase."""
    click = np.linspace(0.43, 0.36, funds)[:, None]
    mu, sigma = _censored_amounts(click, _offers(funds), brought, np.zeros((funds, 3)), np.zeros(3))
    for fund in range(funds):
        m, s = mu[fund, 1], sigma[fund, 1]
        found = integrate.quad(lambda v, m=m, s=s: np.expm1(v) * stats.norm.pdf(v, m, s), LEAST, m + 14 * s)[0]
        assert click[fund, 0] * found == pytest.approx(brought, rel=1e-6)


def test_more_deliveries_follow_the_same_truth_apart_from_the_first(censored: Funds) -> None:
    again = deliver_again(censored, 8, seed=3)
    assert len(again) == len(censored.deliveries)
    assert (again["level"] != censored.deliveries["level"]).mean() > 0.5
    place = np.searchsorted(censored.users["account_id"], again["account_id"])
    level = again["level"].to_numpy()
    assert censored.allowed[level, place].all()
    p = censored.convert[level, place].astype(float)
    assert abs(again["response"].sum() - p.sum()) < 4 * np.sqrt((p * (1 - p)).sum())
    pd.testing.assert_frame_equal(again, deliver_again(censored, 8, seed=3))


def neighbors(drawn: Funds) -> np.ndarray:
    """(N,): mean ticket of the merchants a user pays at."""
    ticket = drawn.merchants.set_index("account_id")["x_ticket"]
    found = drawn.edges.assign(ticket=drawn.edges["dst"].map(ticket)).groupby("src")["ticket"].mean()
    return np.asarray(found.reindex(drawn.users["account_id"]))


@pytest.mark.parametrize(("strength", "least", "most"), [(0.0, -0.05, 0.05), (0.9, 0.7, 0.95)])
def test_wealth_is_in_the_graph_as_far_as_the_strength_says(strength: float, least: float, most: float) -> None:
    """The correlation of the log-amount with what merchants show, given the age that is known to move it."""
    drawn = draw(FundOptions(users=4000, strength=strength), seed=5)
    wealth = drawn.mu[0] - 0.2 * drawn.users["x_age"].to_numpy()
    assert least < np.corrcoef(wealth, neighbors(drawn))[0, 1] < most
    assert wealth.std() == pytest.approx(0.5, rel=0.06)


@pytest.mark.parametrize("funds", [4, 8])
def test_a_plan_exists_and_the_money_is_not_where_the_conversions_are(funds: int) -> None:
    drawn = draw(FundOptions(users=2000, funds=funds), seed=1)
    plan = solve_demands(drawn.value.astype(np.float32), drawn.demand, drawn.allowed)
    assert plan.status == "optimal"
    assert not drawn.allowed.all()
    assert (drawn.allowed.sum(axis=0) >= 1).all()
    likely = solve_demands(drawn.convert, drawn.demand, drawn.allowed)
    columns = np.arange(2000)
    assert drawn.value[likely.segment, columns].sum() < 0.95 * drawn.value[plan.segment, columns].sum()


def test_nobody_was_delivered_a_fund_he_may_not_have_and_propensities_are_the_shares(drawn: Funds) -> None:
    rows = drawn.deliveries
    place = np.searchsorted(drawn.users["account_id"], rows["account_id"])
    assert drawn.allowed[rows["level"], place].all()
    np.testing.assert_allclose(rows["propensity"], 1 / drawn.allowed.sum(axis=0)[place])
    many = rows["propensity"].to_numpy() == 1 / 8
    share = np.bincount(rows["level"][many], minlength=8) / many.sum()
    assert np.abs(share - 1 / 8).max() < 4 * np.sqrt(7 / 64 / many.sum())


def test_the_tables_hold_what_was_drawn() -> None:
    dataset = load("funds", seed=4, users=100, funds=4, deliveries=3)
    drawn = draw(FundOptions(users=100, funds=4, deliveries=3), seed=4)
    rows = labeled(dataset.tables, "customer").sort_values("request_id", ignore_index=True)
    for column in ("account_id", "level", "response", "clicked", "amount"):
        assert rows[column].tolist() == drawn.deliveries[column].tolist()
    assert dataset.tables.offer["demand"].tolist() == drawn.demand.tolist()
    assert dataset.truth is not None
    np.testing.assert_allclose(dataset.truth["value"].to_numpy().reshape(4, 100), drawn.value)
    assert "simulated" in dataset.notes["source"]


@pytest.mark.parametrize(
    ("options", "field"), [({"strength": 1.5}, "strength"), ({"funds": 5}, "funds"), ({"users": 2.5}, "users")]
)
def test_options_that_cannot_be_are_refused(options: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        load("funds", **options)


@pytest.mark.parametrize("censored", [False, True])
def test_effects_of_funds_follow_from_their_features(censored: bool) -> None:
    """Means over users are lines in the return, apart for funds in lots; the offer table holds the features."""
    drawn = draw(FundOptions(users=6000, censored=censored, strength=0.0), seed=8)
    x, lot = drawn.offers["x_return"].to_numpy(), drawn.offers["x_lot"].to_numpy() == 1
    for each in (drawn.mu.mean(axis=1), drawn.sigma.mean(axis=1)):
        for chosen in (lot, ~lot):
            line = np.polyfit(x[chosen], each[chosen], 2 if censored else 1)
            np.testing.assert_allclose(np.polyval(line, x[chosen]), each[chosen], atol=0.03)
    if censored:
        assert (drawn.sigma[lot] == np.float32(0.5)).all()
    offer = load("funds", seed=8, users=100, funds=4).tables.offer.sort_values("order_index")
    np.testing.assert_allclose(offer["x_return"], [0.02, 0.04, 0.06, 0.08])
    assert offer["x_lot"].tolist() == [1, 0, 1, 0]
