"""Spend of a policy by held-out rows, against known true responses."""

from dataclasses import dataclass

import numpy as np
import pytest

from shadowprice.allocation.spend_ratio import HeldOutSpend, Ratio, solve_within, spend_ratio
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.held_out_spend import held_out_spend
from shadowprice.policy import Choices

LEVELS = np.array([0.0, 200.0, 400.0, 1000.0])
CHANCE = np.array([0.4, 0.2, 0.2, 0.2])


@dataclass(frozen=True, eq=False)
class Trial:
    """Trial with the true response (J, n) of each row, beside what a model expects."""

    truth: np.ndarray
    model: np.ndarray
    rows: RandomizedRows
    unit: np.ndarray
    held_out: np.ndarray

    def spend(self) -> dict[str, HeldOutSpend]:
        return held_out_spend({"customer": self.rows}, {"customer": self.held_out}, {"customer": None})

    def decide(self, price: float) -> np.ndarray:
        columns = np.arange(self.held_out.size)
        return Choices(self.model, self.unit * self.model).decide([price], 0.5, columns).level

    def true_ratio(self, price: float) -> float:
        level, columns = self.decide(price), np.arange(self.held_out.size)
        true, expected = ((self.unit * curve)[level, columns].sum() for curve in (self.truth, self.model))
        return float(true / expected)


def draw(seed: int, n: int = 20_000, *, error: float = 0.7, basket: bool = False, base: float = 0.15) -> Trial:
    """Draw a trial whose model is right in the mean of all accounts, and errs on who responds without an incentive.

    The accounts that it underrates seem to gain much for their cost, so a policy chooses them.
    """
    rng = np.random.default_rng(seed)
    start = np.clip(base * rng.gamma(4, 0.25, n), 0, 0.4)
    rise = base * rng.gamma(2, 0.5, n) * (1 - np.exp(-LEVELS / 400))[:, None]
    truth = np.clip(start + rise, 0, 0.95)
    model = np.clip(start * np.exp(error * rng.normal(size=n) - error**2 / 2) + rise, 1e-4, 1)
    unit = LEVELS[:, None] * (rng.lognormal(-0.1, 0.4, n) if basket else np.ones(n))
    level = rng.choice(4, n, p=CHANCE)
    response = rng.random(n) < truth[level, np.arange(n)]
    rows = RandomizedRows(
        level=level,
        value=response.astype(float),
        cost=unit[level, np.arange(n)] * response,
        propensity=CHANCE[level],
        account=np.char.add("a", np.arange(n).astype(str)),
        expected_value=model,
        expected_cost=unit * model,
    )
    return Trial(truth, model, rows, unit, np.arange(n) % 10 < 3)


@pytest.mark.parametrize(
    ("basket", "base", "price"), [(False, 0.15, 1.2e-3), (False, 0.15, 5e-4), (True, 0.15, 8e-4), (False, 0.02, 8e-4)]
)
def test_the_ratio_of_chosen_decisions_is_the_true_one_in_the_mean(basket: bool, base: float, price: float) -> None:
    true, found = [], []
    for seed in range(12):
        trial = draw(seed, basket=basket, base=base)
        true.append(trial.true_ratio(price))
        found.append(spend_ratio(trial.spend(), {"customer": 1.0}, price).value)
    # The model is right in the mean of all accounts, and still its choice costs more than it expects.
    assert np.mean(true) > 1.08
    # With a base of 2 % a trial tells the ratio to about 10 %, and the mean of twelve to 3 %.
    assert np.mean(true) / np.mean(found) == pytest.approx(1.0, abs=0.03 if base > 0.1 else 0.06)


def test_the_interval_covers_the_true_ratio() -> None:
    inside = []
    for seed in range(60):
        trial = draw(seed, 6_000)
        found = spend_ratio(trial.spend(), {"customer": 1.0}, 5e-4)
        inside.append(found.low <= trial.true_ratio(5e-4) <= found.high)
    assert np.mean(inside) >= 0.88


def test_a_right_model_keeps_its_expectation_but_for_chance() -> None:
    found = [spend_ratio(draw(seed, error=0.0).spend(), {"customer": 1.0}, 5e-4).value for seed in range(8)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.02)
    assert np.std(found) < 0.06


def test_rows_that_were_learned_from_tell_the_error_of_a_level_alone() -> None:
    """A model that repeats the outcomes of its rows has no error on them, and errs on others as before."""
    trial = draw(3)
    level, rows = np.asarray(trial.rows.level), np.arange(trial.held_out.size)
    learned = np.flatnonzero(~trial.held_out)
    trial.model[level[learned], learned] = np.asarray(trial.rows.value)[learned]
    fresh = draw(3)
    price = 8e-4
    own = Choices(fresh.model, fresh.unit * fresh.model).decide([price], 0.5, rows).level
    true, expected = ((fresh.unit * curve)[own, rows][fresh.held_out].sum() for curve in (fresh.truth, fresh.model))
    found = spend_ratio(trial.spend(), {"customer": 1.0}, price)
    assert found.low <= true / expected <= found.high
    assert true / expected > 1.08


def test_few_rows_change_little_and_none_nothing() -> None:
    few = HeldOutSpend(price=(0.0, 1.0), expected=(10.0, 10.0), paid=(20.0, 20.0), error=(10.0, 10.0), rows=8)
    many = HeldOutSpend(price=(0.0, 1.0), expected=(10.0, 10.0), paid=(20.0, 20.0), error=(0.1, 0.1), rows=80_000)
    assert spend_ratio({"customer": few}, {"customer": 5.0}, 0.5).value == pytest.approx(1 + 0.25 / 1.25)
    assert spend_ratio({"customer": many}, {"customer": 5.0}, 0.5).value == pytest.approx(2.0, abs=0.01)
    assert spend_ratio({}, {"customer": 5.0}, 0.5) == Ratio(1.0, 1.0, 1.0)
    assert spend_ratio({"customer": many}, {"merchant": 5.0}, 0.5) == Ratio(1.0, 1.0, 1.0)


def test_sides_count_by_their_requests() -> None:
    cheap = HeldOutSpend(price=(0.0,), expected=(1.0,), paid=(1.0,), error=(0.0,), rows=9)
    dear = HeldOutSpend(price=(0.0,), expected=(3.0,), paid=(6.0,), error=(0.0,), rows=9)
    assert spend_ratio({"customer": cheap, "merchant": dear}, {"customer": 30.0, "merchant": 10.0}, 0.0).value == 1.5


def test_what_is_written_is_read_again() -> None:
    spend = draw(1, 2_000).spend()["customer"]
    assert HeldOutSpend.from_dict(spend.to_dict()) == spend
    assert list(spend.price) == sorted(spend.price)


def test_the_money_really_paid_meets_the_budget() -> None:
    """Expected spend 100/price and a ratio that depends on the price."""
    price, ratio = solve_within(
        lambda ratio: 100 * ratio / 50, float, lambda price: Ratio(1 + price / 20, price / 20, 1 + price / 10)
    )
    assert 100 / price * (1 + price / 20) == pytest.approx(50, rel=2e-3)
    assert ratio.value == pytest.approx(1 + price / 20, rel=2e-3)
