"""Totals over groups of rows, against the mean of one group and against draws."""

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import together
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.totals import StratifiedTotals


def cells_of(y: np.ndarray, account: np.ndarray, partner: np.ndarray | None = None):
    cells, first = together(y.size, account, partner, fields=("account", "partner"))
    return cells.sums(y)[:, None], cells.sums(np.ones(y.size)), first


@pytest.mark.parametrize("crossed", [False, True])
def test_the_total_of_one_group_is_its_mean_with_the_interval_of_the_mean(crossed: bool) -> None:
    rng = np.random.default_rng(0)
    account = rng.integers(0, 40, 300).astype(str)
    partner = rng.integers(0, 15, 300).astype(str) if crossed else None
    y = rng.normal(2.0, 1.0, 300) + account.astype(int) / 10
    sums, rows, first = cells_of(y, account, partner)
    found = StratifiedTotals([rows], [10.0], account[first], None if partner is None else partner[first]).of([sums])
    expected = mean(y, cluster=account, partner=partner)
    estimate = found.estimates()[0]
    for name in ("value", "low", "high"):
        assert getattr(estimate, name) == pytest.approx(10.0 * getattr(expected, name), rel=1e-12)


def test_an_account_in_two_groups_is_one_cluster() -> None:
    rng = np.random.default_rng(1)
    names = np.arange(200).astype(str)
    y = rng.normal(size=200)
    rows = np.ones(200)
    together_ = StratifiedTotals([rows, rows], [1.0, 1.0], np.r_[names, names]).of([y[:, None], y[:, None]])
    apart = StratifiedTotals([rows, rows], [1.0, 1.0], np.r_[names, np.char.add("m", names)]).of(
        [y[:, None], y[:, None]]
    )
    assert together_.value == pytest.approx(apart.value)
    assert float(together_.variance[0] / apart.variance[0]) == pytest.approx(2.0, rel=0.02)


def test_intervals_cover_the_total_of_groups_whose_sizes_vary() -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(400):
        sizes = [rng.poisson(200), rng.poisson(300)]
        groups = [rng.exponential(3.0, sizes[0]), rng.normal(1.0, 2.0, sizes[1])]
        names = np.arange(sum(sizes)).astype(str)
        totals = StratifiedTotals([np.ones(size) for size in sizes], [100.0, 10.0], names)
        found = totals.of([each[:, None] for each in groups]).estimates()[0]
        inside += found.low <= 310.0 <= found.high
    assert 0.91 <= inside / 400 <= 0.985


def test_what_is_the_same_for_all_has_no_width_and_one_account_no_interval() -> None:
    totals = StratifiedTotals([np.full(50, 3.0)], [7.0], np.arange(50).astype(str))
    found = totals.of([np.full((50, 1), 3 * 0.1)]).estimates()[0]
    assert found.low == found.value == found.high == pytest.approx(0.7)
    with pytest.raises(InvalidInput, match="at least two accounts"):
        StratifiedTotals([np.ones(1)], [1.0], np.array(["a"]))
