import numpy as np
import pytest

from research.measures.sensitivity import uplift_by_sensitivity
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Interval

FEW = Interval(replications=200)


def trial(seed: int, accounts: int = 1000, trials: int = 4):
    """Responses whose slope in the level is the account's own, with the truth."""
    random = np.random.default_rng(seed)
    account = np.repeat(np.arange(accounts), trials)
    slope = np.repeat(random.uniform(0, 0.25, accounts), trials)
    level = random.integers(0, 4, account.size)
    y = (random.random(account.size) < 0.1 + slope * level).astype(float)
    return account, slope, level, y


def test_it_is_the_difference_of_means_of_each_fifth() -> None:
    account, slope, level, y = trial(0, accounts=10)
    found = uplift_by_sensitivity(y, level, slope, levels=4, account=account, interval=FEW)
    order = np.argsort(slope[::4])
    for number in range(5):
        here = np.isin(account, order[2 * number : 2 * number + 2])
        high, low = y[here & (level >= 2)], y[here & (level < 2)]
        expected = high.mean() - low.mean() if high.size and low.size else np.nan
        assert found.uplift[number].value == pytest.approx(expected, nan_ok=True)
    assert found.accounts.tolist() == [2] * 5
    assert np.all(np.diff(found.sensitivity) > 0)


def test_true_sensitivities_sort_by_uplift_and_noise_does_not() -> None:
    account, slope, level, y = trial(1, accounts=4000)
    known = uplift_by_sensitivity(y, level, slope, levels=4, account=account, interval=FEW)
    # the middle of a fifth has slope 0.25·(g + ½)/5, and high and low levels are 2 apart on average
    np.testing.assert_allclose([each.value for each in known.uplift], 0.1 * (np.arange(5) + 0.5), atol=0.05)
    noise = np.random.default_rng(2).random(4000)[account]
    blind = uplift_by_sensitivity(y, level, noise, levels=4, account=account, interval=FEW)
    assert known.steepness.low > 0.3
    assert blind.steepness.low < 0 < blind.steepness.high


def test_its_interval_covers_the_truth() -> None:
    covered = 0
    for seed in range(400, 460):
        account, slope, level, y = trial(seed, accounts=400)
        found = uplift_by_sensitivity(y, level, slope, levels=4, account=account, interval=FEW)
        own = slope[::4]
        top = np.sort(own)[-80:].mean() - np.sort(own)[:80].mean()
        covered += found.steepness.low <= 2 * top <= found.steepness.high
    assert 52 <= covered <= 60  # 57 expected, standard deviation 1.7


def test_the_middle_of_an_odd_number_of_levels_is_neither_high_nor_low() -> None:
    y, level, slope = np.array([0.0, 9.0, 1.0] * 4), np.array([0, 1, 2] * 4), np.repeat([1.0, 2.0], 6)
    found = uplift_by_sensitivity(y, level, slope, levels=3, groups=2, interval=FEW)
    assert [each.value for each in found.uplift] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"level": [0, 1, 2, 5]}, "level"),
        ({"groups": 1}, "groups"),
        ({"groups": 3}, "account"),
        ({"sensitivity": [1.0, 2.0, 3.0, 3.0]}, "sensitivity"),
    ],
)
def test_what_cannot_be_sorted_is_refused(change, field) -> None:
    given = {"y": [0, 1, 0, 1], "level": [0, 1, 0, 1], "sensitivity": [1.0, 1.0, 2.0, 2.0]}
    with pytest.raises(InvalidInput, match=field):
        uplift_by_sensitivity(**{**given, "levels": 4, "groups": 2, "account": ["a", "a", "b", "b"], **change})
