"""The measures of S2's tables: the truth bounds every choice, and published figures stand in rows that are measured."""

import numpy as np
import pytest

from research.tables.s2 import censored, figure6, losses, table1, table3
from research.tables.s2.funds import MASS, MODELS, Judged
from shadowprice.datasets.funds import UNIT, FundOptions, draw


@pytest.fixture(scope="module")
def judged() -> Judged:
    return Judged(draw(FundOptions(users=300, funds=4, deliveries=4, merchants=30), seed=1), seed=0)


def test_the_truth_bounds_the_value_of_every_choice(judged: Judged) -> None:
    best = judged.truth()
    assert best["true value of the choice"] == 1
    random = np.random.default_rng(0)
    for noise in (0.2, 1.0, 3.0):
        wrong = judged.value * random.lognormal(0, noise, judged.value.shape)
        assert judged.figures(None, wrong, judged.log_value)["true value of the choice"] < 1


def test_hits_are_counted_as_in_a_loop_and_only_among_allowed_funds(judged: Judged) -> None:
    found = judged.figures(None, judged.value, judged.log_value)
    conversions = amount = 0.0
    for level, place, y, paid in zip(judged.level, judged.place, judged.y, judged.amount, strict=True):
        open_ = np.flatnonzero(judged.allowed[:, place])
        if open_[judged.value[open_, place].argmax()] == level:
            conversions, amount = conversions + y, amount + paid
    assert found["THC"] == conversions
    assert found["THA"] == pytest.approx(amount)
    assert amount <= judged.drawn.deliveries["amount"].sum() / UNIT


def test_the_expected_log_is_the_best_answer_on_the_log_scale_and_the_log_of_the_expectation_is_not(
    judged: Judged,
) -> None:
    best = judged.truth()
    assert best["MSE over the truth's"] == 0
    assert best["MSE"] < best["MSE, log of ETV"]
    for factor in (0.7, 1.4):
        found = judged.figures(judged.convert, judged.value, factor * judged.log_value)
        assert found["MSE"] > best["MSE"]
        assert found["MSE over the truth's"] > 0


def test_errors_in_currency_are_of_the_expected_amount(judged: Judged) -> None:
    best = judged.truth()
    assert best["RMSE over the truth's, currency"] == 0
    found = judged.figures(judged.convert, judged.value + 3.0, judged.log_value)
    assert found["RMSE over the truth's, currency"] == pytest.approx(3.0)
    assert found["MSE"] == best["MSE"]
    paid = judged.amount - judged.value[judged.level, judged.place]
    assert found["RMSE, currency"] ** 2 == pytest.approx(best["RMSE, currency"] ** 2 - 6 * paid.mean() + 9)


def test_nobody_who_is_judged_is_learnt_from(judged: Judged) -> None:
    assert not set(judged.users["account_id"]) & set(judged.learnt["account_id"])
    assert len(judged.level) + len(judged.learnt) == len(judged.drawn.deliveries)


def test_later_deliveries_judge_the_same_users_by_the_same_truth(judged: Judged) -> None:
    later = Judged(judged.drawn, 0, later=40)
    assert len(later.level) == 40 * len(later.users)
    assert later.users["account_id"].tolist() == judged.users["account_id"].tolist()
    assert len(later.learnt) == len(judged.learnt)
    p = later.convert[later.level, later.place]
    assert abs(later.y.sum() - p.sum()) < 4 * np.sqrt((p * (1 - p)).sum())


def test_networks_where_a_latent_amount_decides_are_judged_by_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wiring of censored on a small delivery: its rows are what it compares, and the truth is out of reach."""
    monkeypatch.setattr(censored, "QUICK_USERS", 200)
    few = ("ESDPM", censored.MASS_CLICK)
    monkeypatch.setattr(censored, "ROWS", {row: censored.ROWS[row] for row in few})
    found = censored.run(0, quick=True)
    assert set(found) == {*few, censored.MEDIAN, censored.LOGNORMAL, "truth"}
    for row in few:
        assert found[row]["true value of the choice"] < 1
        assert found[row]["MSE"] > found["truth"]["MSE"]


def test_what_a_law_misses_though_it_knows_everything_is_what_its_law_of_amounts_errs() -> None:
    """Of one user and four funds: the median and the lognormal of 2e6 draws of each fund's amounts."""
    drawn = draw(FundOptions(users=400, merchants=40, funds=4, censored=True), seed=6)
    judged = Judged(drawn, 0, later=4)
    found = censored.best_of_their_kind(judged)
    place = np.searchsorted(drawn.users["account_id"], judged.users["account_id"][:1])[0]
    random = np.random.default_rng(1)
    for row, worth in ((censored.MEDIAN, _median), (censored.LOGNORMAL, _lognormal)):
        assert found[row]["true value of the choice"] < 1
        for fund in range(4):
            mu, sigma = float(drawn.mu[fund, place]), float(drawn.sigma[fund, place])
            wish = random.normal(mu, sigma, 2_000_000)
            brought = np.expm1(wish[wish > np.log(2)])
            said = censored.laws(np.array([[mu]]), np.array([[sigma]]))[row][0].item()
            assert said == pytest.approx(worth(brought), rel=0.02)


def _median(brought: np.ndarray) -> float:
    return float(np.expm1(np.log1p(brought).mean()))


def _lognormal(brought: np.ndarray) -> float:
    return float(np.exp(np.log(brought).mean() + 0.5 * np.log(brought).var()))


def test_every_loss_beats_conversions_alone_where_the_predictor_is_the_same() -> None:
    """Amounts are worth knowing; the rows differ in the loss alone, and the truth is out of reach of all."""
    found = losses.run(0, quick=True)
    alone = found["conversion alone"]["MSE over the truth's"]
    for row in ("ESJ", "ESJ, mass of 1", "two parts", "ZILN", "MSE"):
        assert 0 < found[row]["MSE over the truth's"] < alone
        assert max(found[row + suffix]["true value of the choice"] for suffix in losses.WORLDS) < 1


def test_published_figures_stand_in_rows_that_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(table1.TABLE.published) <= set(MODELS)
    assert set(table3.TABLE.published) <= set(table3.ARMS)
    assert {row for pair in table3.PAIRS for row in pair} <= set(table3.ARMS)
    for table in (table1, table3, censored, losses, figure6):
        assert table.TABLE.primary is not None
    monkeypatch.setattr(figure6, "SIZES", (5_000,))
    found = figure6.run(0, quick=True)
    heuristic = found["heuristic, 5,000 users"]
    assert 0.9 < heuristic["objective over exact"] <= 1 + 1e-9
    assert heuristic["seats wrong"] == 0
    assert found["manual, 5,000 users"]["objective over exact"] < 1


def test_the_printed_loss_has_rows_and_the_page_names_the_law_of_its_world() -> None:
    """Both losses with S2's own network and given a click; every row that is compared is measured."""
    for row, loss in (("ESDPM", None), (MASS, "esj_mass")):
        assert censored.ROWS[row][1].get("loss") == loss
        assert censored.ROWS[f"{row}, given a click"][1].get("loss") == loss
    assert "drawn from the law of `esj_mass`" in censored.TABLE.data
    assert "p·(1 − N(0; mu, sigma))" in table1.TABLE.data
    for table in (table3, censored, losses):
        assert "[s2_table1](s2_table1.md)" in table.TABLE.data
    for _, *pair in censored.TABLE.compare:
        assert {*pair} <= set(censored.ROWS)


def test_effects_of_the_generator_are_taken_out_and_put_in() -> None:
    """Full effects change nothing; without wealth in purchases, amounts and the chance to buy are unrelated."""
    drawn = draw(FundOptions(users=4000), seed=3)
    p, units = table3.changed(drawn, 1.0, 0.0)
    np.testing.assert_allclose(p, drawn.convert, rtol=1e-5)
    np.testing.assert_allclose(units, drawn.value / UNIT, rtol=1e-5)
    buy, rich = drawn.convert / drawn.click, drawn.mu - 0.2 * drawn.users["x_age"].to_numpy()
    apart = table3.changed(drawn, 0.0, 0.0)[0] / drawn.click
    for fund in range(8):
        assert np.corrcoef(buy[fund], rich[fund])[0, 1] > 0.4
        assert abs(np.corrcoef(apart[fund], rich[fund])[0, 1]) < 4 / np.sqrt(4000)
    liked = table3.changed(drawn, 0.0, -1.0)
    mean, before = liked[1] / liked[0], units / p
    assert np.corrcoef(np.log(mean / before)[7], drawn.click[7])[0, 1] < -0.8
