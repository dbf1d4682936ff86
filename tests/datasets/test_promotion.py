import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm

from shadowprice.datasets import load
from shadowprice.datasets.promotion import LEVELS, PromotionOptions, curves_at, draw, draw_curves, rising
from shadowprice.errors import InvalidInput
from shadowprice.tables import labeled


def printed(low: float, center: float, width: float) -> list[float]:
    """S1's equations 18–20, term by term, with the normalized density and before any clipping."""
    slope = [norm.pdf(h, center, width) for h in range(101)]
    top = max(slope)
    return [low + (1 - low) * math.fsum(slope[: c + 1]) / (100 * top) for c in range(101)]


@pytest.mark.parametrize(
    ("low", "center", "width"), [(0.0, 50.0, 50.0), (0.3, -20.0, 30.0), (0.7, 120.0, 5.0), (0.1, 33.4, 0.5)]
)
def test_a_curve_is_that_of_the_printed_equations(low, center, width) -> None:
    found = rising(*(np.array([each]) for each in (low, center, width)))[:, 0]
    np.testing.assert_allclose(found, printed(low, center, width), rtol=1e-12)
    # The point of the unit cube whose quantiles these are.
    unit = np.array([[low, (center + 50) / 200, width / 50]])
    np.testing.assert_allclose(curves_at(unit)[:, 0], found, rtol=1e-9)


def test_a_flat_slope_would_reach_1_008_and_is_clipped_to_1() -> None:
    low, center, width = np.array([0.2]), np.array([50.0]), np.array([1e9])
    assert printed(0.2, 50.0, 1e9)[100] == pytest.approx(1.008)
    found = rising(low, center, width)[:, 0]
    assert found[100] == 1.0
    np.testing.assert_allclose(found[:99], 0.2 + 0.8 * np.arange(1, 100) / 100)


def test_the_share_of_vanishing_bumps_is_that_of_the_closed_form() -> None:
    """Z is 0 where a bump lies more widths outside the range than the exponential reaches before it underflows."""
    reach = math.sqrt(2 * (math.log(2) - math.log(math.nextafter(0.0, 1.0))))
    outside, mean_distance, widest = 0.5, 25.0, 50.0
    expected = outside * mean_distance / (reach * widest)
    assert expected == pytest.approx(0.0065, abs=1e-4)
    count = 200_000
    found = np.isnan(curves_at(np.random.default_rng(0).random((count, 3)))).all(axis=0).mean()
    assert found == pytest.approx(expected, abs=4 * math.sqrt(expected / count))


def test_a_vanishing_bump_is_drawn_again() -> None:
    class Planted(np.random.Generator):
        """Draws a bump of no width far outside the range once, then real ones."""

        calls = 0

        def random(self, size=None):
            self.calls += 1
            return np.tile([0.5, 0.0, 1e-3], (size[0], 1)) if self.calls == 1 else super().random(size)

    random = Planted(np.random.PCG64(0))
    found = draw_curves(3, random)
    assert random.calls >= 2
    assert np.isfinite(found).all()


def test_curves_rise_within_zero_and_one_and_their_starts_are_uniform() -> None:
    curves = draw_curves(5000, np.random.default_rng(0))
    assert curves.shape == (101, 5000)
    assert (np.diff(curves, axis=0) >= 0).all()
    assert curves.min() >= 0
    assert curves.max() <= 1
    # At most (1 − a) / 100 of the rise is at incentive 0 already.
    assert kstest(curves[0], "uniform").statistic < 0.01 + 1.95 / math.sqrt(5000)


def test_a_bump_left_of_the_range_is_concave_and_one_right_of_it_convex() -> None:
    """The paper states the reverse; the sign of the second differences decides."""
    for center, sign in ((-20.0, -1), (120.0, 1)):
        curve = rising(np.array([0.1]), np.array([center]), np.array([30.0]))
        assert (sign * np.diff(curve, n=2, axis=0) > 0).all()


@pytest.mark.parametrize("features", [(2, 2, 2), (3, 5, 7)])
def test_there_are_as_many_rows_as_asked_and_responses_follow_the_truth(features) -> None:
    drawn = draw(PromotionOptions(features=features), seed=1)
    frame = drawn.frame
    assert len(frame) == 20_000
    assert drawn.response.shape == (21, 20_000)
    kinds = frame.groupby(["c_1", "c_2", "c_3"]).ngroups
    assert 0.9 * np.prod(features) <= kinds <= np.prod(features)
    own = drawn.response[frame["level"], np.arange(20_000)]
    error = (frame["response"] - own).mean() / np.sqrt((own * (1 - own)).mean() / 20_000)
    assert abs(error) < 4
    by_level = frame["level"].value_counts(normalize=True)
    np.testing.assert_allclose(by_level, 1 / 21, atol=0.01)
    np.testing.assert_allclose(frame["propensity"], 1 / 21)


def test_a_control_group_gets_the_lowest_level_with_its_share_and_the_others_alike() -> None:
    drawn = draw(PromotionOptions(levels=(0, 10, 20), lowest_share=0.5), seed=2)
    share = drawn.frame["level"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(share, [0.5, 0.25, 0.25], atol=0.02)
    np.testing.assert_allclose(drawn.frame["propensity"], np.array([0.5, 0.25, 0.25])[drawn.frame["level"]])
    for options in ({"lowest_share": 1.0}, {"lowest_share": 0.2, "bias": 1.0}, {"lowest_share": 0.2, "levels": (5,)}):
        with pytest.raises(InvalidInput, match="lowest_share"):
            PromotionOptions(**options)


def test_some_combinations_are_sparse() -> None:
    frame = draw(PromotionOptions(features=(3, 5, 7)), seed=0).frame
    rows = frame.groupby(["c_1", "c_2", "c_3"]).size()
    assert rows.min() < 0.1 * rows.mean() < rows.max()


def test_bias_gives_the_less_active_more_and_logs_with_what_chance() -> None:
    drawn = draw(PromotionOptions(features=(3, 5, 7), bias=1.0), seed=2)
    frame = drawn.frame
    assert np.corrcoef(drawn.response[0], frame["level"])[0, 1] < -0.4
    for j in (0, 10, 20):
        # Weighted by the inverse of their propensities, the rows of a level are everybody.
        rows = (frame["level"] == j).to_numpy()
        weighted = np.average(drawn.response[j, rows], weights=1 / frame["propensity"][rows])
        assert weighted == pytest.approx(drawn.response[j].mean(), abs=0.03)


def test_the_bias_reverses_the_means_of_the_rows_and_inverse_propensities_restore_the_truth() -> None:
    drawn, fair = (draw(PromotionOptions(features=(3, 5, 7), bias=bias), seed=0) for bias in (1.0, 0.0))
    np.testing.assert_array_equal(drawn.response, fair.response)
    frame = drawn.frame
    assert (drawn.response[-1] > drawn.response[0]).all()
    mean = frame.groupby("level")["response"].mean()
    assert mean[20] < mean[0] - 0.1
    for j in (0, 10, 20):
        rows = frame[frame["level"] == j]
        weight = 1 / rows["propensity"]
        restored = np.average(rows["response"], weights=weight)
        spread = math.sqrt(((weight * (rows["response"] - restored)) ** 2).sum()) / weight.sum()
        assert abs(restored - drawn.response[j].mean()) < 4 * spread


def test_the_same_seed_gives_the_same_promotion_and_another_seed_another() -> None:
    one, two, other = (draw(PromotionOptions(rows=300), seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(one.frame, two.frame)
    assert not one.frame.equals(other.frame)


def test_as_a_data_set_it_has_tables_a_truth_and_says_that_it_is_simulated() -> None:
    found = load("promotion", seed=5, rows=400, features=(2, 3))
    rows = labeled(found.tables, "customer")
    drawn = draw(PromotionOptions(rows=400, features=(2, 3)), seed=5)
    np.testing.assert_array_equal(rows["response"], drawn.frame["response"])
    np.testing.assert_array_equal(rows["level"], drawn.frame["level"])
    truth = found.truth.pivot(index="level", columns="account_id", values="response")
    np.testing.assert_allclose(truth[rows["account_id"]].to_numpy(), drawn.response)
    assert tuple(sorted(found.tables.offer["face_value"])) == LEVELS
    assert "simulated" in found.notes["source"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"features": ()}, "features"),
        ({"rows": 0}, "rows"),
        ({"rows": 10.5}, "rows"),
        ({"levels": (5, 0)}, "levels"),
        ({"levels": (0, 101)}, "levels"),
        ({"bias": -1.0}, "bias"),
    ],
)
def test_options_that_cannot_be_are_refused(options, field) -> None:
    with pytest.raises(InvalidInput, match=field):
        PromotionOptions(**options)


def test_whole_numbers_may_come_as_floats() -> None:
    assert PromotionOptions(rows=300.0, features=[2.0, 3.0]) == PromotionOptions(rows=300, features=(2, 3))
