import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import combined, partitions

FIELDS = ("cluster", "partner")


def brute(values: np.ndarray, account: np.ndarray, partner: np.ndarray) -> float:
    """Σ_i Σ_j values_i · values_j over pairs of rows with an account or a partner in common."""
    together = (account[:, None] == account) | (partner[:, None] == partner)
    return float(values @ together @ values)


def test_the_combined_sum_counts_every_dependent_pair_of_rows_once() -> None:
    rng = np.random.default_rng(1)
    account, partner = rng.integers(0, 20, 80), rng.integers(0, 9, 80)
    values = rng.normal(0.4, 1, 80)
    squares = [
        np.asarray((sums := each.sums(values)) @ sums) for each in partitions(80, account, partner, fields=FIELDS)
    ]
    assert squares[0] + squares[1] - squares[2] == pytest.approx(brute(values, account, partner))
    assert combined(squares) == pytest.approx(max(brute(values, account, partner), squares[0], squares[1]))


def test_the_variance_is_never_below_that_of_one_way() -> None:
    assert combined([np.array([1.0]), np.array([2.0]), np.array([2.5])]).tolist() == [2.0]


@pytest.mark.parametrize(("account", "partner", "size"), [([0, 1, 2, 3], [0, 0, 1, 1], 2), ([0, 0, 1, 1], "abcd", 2)])
def test_a_nested_way_leaves_the_coarser_one(account, partner, size) -> None:
    found = partitions(4, np.array(account), np.array(list(partner)), fields=FIELDS)
    assert [each.size for each in found] == [size]


def test_rows_without_an_identifier_are_refused_by_the_name_of_the_column() -> None:
    with pytest.raises(InvalidInput, match="partner"):
        partitions(3, [1, 2, 3], np.array(["a", None, "b"], dtype=object), fields=FIELDS)
    with pytest.raises(InvalidInput, match="cluster"):
        partitions(3, [1, 2], fields=FIELDS)
