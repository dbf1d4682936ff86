"""Effect for everybody from own arm and share of partners: against algebra, and against known truth."""

import doctest

import numpy as np
import pytest
import statsmodels.api as sm

from shadowprice.errors import InvalidInput
from shadowprice.experiments import exposure as module
from shadowprice.experiments.effects import Cells
from shadowprice.experiments.exposure import effect_of_all, exposed, exposure_of

TRIALS = 600


def market(rng: np.random.Generator, accounts: int, partners: int, ties: int) -> np.ndarray:
    customer = np.repeat(np.arange(accounts), ties)
    return np.unique(np.stack([customer, accounts + rng.integers(0, partners, customer.size)]), axis=1)


def test_it_is_least_squares_and_accounts_that_share_a_partner_depend_on_each_other() -> None:
    assert doctest.testmod(module).failed == 0
    rng = np.random.default_rng(0)
    ties = market(rng, 60, 20, 3)
    arm = rng.random(80) < 0.5
    own, share = arm[:60], exposure_of(ties, arm, 0)[:60]
    y = 0.3 + 0.5 * own + 0.2 * share + rng.normal(size=60)
    fit = sm.OLS(y, np.column_stack([np.ones(60), own, share, own * share])).fit()
    found = effect_of_all([exposed(y, own, share)], np.arange(60), ties)
    assert found.value == pytest.approx(fit.params[1:].sum())
    influence = exposed(y, own, share).influence
    independent = np.sqrt(np.array([0, 1, 1, 1]) @ fit.cov_HC2 @ np.array([0, 1, 1, 1]))
    assert np.sqrt((influence**2).sum()) == pytest.approx(independent)
    met = [set(ties[1, ties[0] == each].tolist()) for each in range(60)]
    variance = (influence**2).sum() + sum(
        len(met[i] & met[j]) * influence[i] * influence[j] for i in range(60) for j in range(60) if i != j
    )
    counts = np.bincount(ties[1])
    partners = counts.sum() ** 2 / (counts @ counts)
    few = partners / (partners - 4)
    assert found.error == pytest.approx(np.sqrt(few * max(variance, (influence**2).sum())))


def test_it_covers_the_effect_for_everybody_where_the_difference_misses_it() -> None:
    rng = np.random.default_rng(1)
    accounts, partners = 240, 60
    ties = market(rng, accounts, partners, 5)
    covered, naive = 0, 0
    for _ in range(TRIALS):
        arm = rng.random(accounts + partners) < 0.5
        own, share = arm[:accounts], exposure_of(ties, arm, 0)[:accounts]
        y = 1.0 + 0.2 * own + 0.5 * share + rng.normal(size=accounts)
        effect = effect_of_all([exposed(y, own, share)], np.arange(accounts), ties)
        covered += effect.low <= 0.7 <= effect.high
        two = Cells.of(own, np.arange(accounts))
        plain = two.effect(two.contrast(y))
        naive += plain.low <= 0.7 <= plain.high
    assert 0.93 <= covered / TRIALS <= 0.99
    assert naive / TRIALS < 0.1


def test_it_covers_the_effect_where_partners_have_traits_and_there_are_no_communities() -> None:
    """Customers of one merchant share its trait, and its arm: errors by account are much too small."""
    rng = np.random.default_rng(2)
    accounts, partners = 1200, 200
    ties = market(rng, accounts, partners, 4)
    degree = np.bincount(ties[0], minlength=accounts)
    covered, by_account = 0, 0
    for _ in range(TRIALS):
        arm, trait = rng.random(accounts + partners) < 0.5, rng.normal(0, 2, accounts + partners)
        own, share = arm[:accounts], exposure_of(ties, arm, 0)[:accounts]
        y = 0.2 * own + 0.5 * share + np.bincount(ties[0], trait[ties[1]]) / degree + rng.normal(size=accounts)
        one = exposed(y, own, share)
        effect = effect_of_all([one], np.arange(accounts), ties)
        covered += effect.low <= 0.7 <= effect.high
        by_account += abs(effect.value - 0.7) <= 1.96 * np.sqrt((one.influence**2).sum())
    assert covered / TRIALS >= 0.9
    assert by_account / TRIALS < 0.8


def test_what_cannot_be_estimated_is_refused_by_name() -> None:
    own = np.array([True, False] * 10)
    with pytest.raises(InvalidInput, match="exposure: follows from the own arm"):
        exposed(np.zeros(20), own, own.astype(float))
    with pytest.raises(InvalidInput, match=r"exposure: must be a share of partners in \[0, 1\]"):
        exposed(np.zeros(20), own, np.full(20, 1.5))
    with pytest.raises(InvalidInput, match="treated"):
        exposed(np.zeros(20), np.ones(20, bool), np.linspace(0, 1, 20))
    with pytest.raises(InvalidInput, match="y: has 4 accounts"):
        exposed(np.zeros(20), own, np.linspace(0, 1, 20), np.arange(20) < 4)
