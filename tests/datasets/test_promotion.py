import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets import load
from shadowprice.datasets.promotion import LEVELS, PromotionOptions, bump_curves, draw
from shadowprice.errors import InvalidInput
from shadowprice.tables import labelled


def test_curves_rise_from_a_to_b_within_zero_and_one() -> None:
    curves = bump_curves(5000, np.random.default_rng(0))
    assert curves.shape == (101, 5000)
    assert np.isfinite(curves).all()
    assert curves.min() >= 0
    assert curves.max() <= 1 + 1e-12
    assert (np.diff(curves, axis=0) >= -1e-15).all()


def test_a_bump_left_of_the_range_is_concave_and_one_right_of_it_convex() -> None:
    """The printed claim is the other way round; the slope's own slope decides."""

    class Fixed(np.random.Generator):
        centre = 0.0

        def uniform(self, low=0.0, high=1.0, size=None):
            if np.ndim(low) == 0 and low == -50:
                return np.full(size, self.centre)
            if np.ndim(low) == 0 and high == 50:
                return np.full(size, 30.0)
            return np.ones(np.shape(low))

    for centre, sign in ((-20.0, -1), (120.0, 1)):
        random = Fixed(np.random.PCG64(0))
        random.centre = centre
        curvature = np.diff(bump_curves(3, random)[1:], n=2, axis=0)
        assert (sign * curvature > 0).all()


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


def test_the_same_seed_gives_the_same_promotion_and_another_seed_another() -> None:
    one, two, other = (draw(PromotionOptions(rows=300), seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(one.frame, two.frame)
    assert not one.frame.equals(other.frame)


def test_as_a_data_set_it_has_tables_a_truth_and_says_that_it_is_simulated() -> None:
    found = load("promotion", seed=5, rows=400, features=(2, 3))
    rows = labelled(found.tables, "customer")
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
