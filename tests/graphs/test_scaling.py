import numpy as np

from shadowprice.graphs.scaling import Scaling, fit_scaling


def test_standardized_columns_have_mean_zero_and_unit_variance() -> None:
    values = np.random.default_rng(0).normal(5.0, 3.0, size=(1000, 2)).astype(np.float32)
    out = fit_scaling(("a", "b"), values).apply(values)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(out.std(axis=0), 1, atol=1e-3)


def test_unknown_values_sit_at_the_mean_and_are_flagged() -> None:
    values = np.array([[1.0, 1.0], [3.0, np.nan], [5.0, 3.0]], dtype=np.float32)
    scaling = fit_scaling(("a", "b"), values)
    out = scaling.apply(values)
    assert scaling.width == 3
    assert out[1, 1] == 0
    assert out[:, 2].tolist() == [0, 1, 0]


def test_a_heavy_tail_is_taken_in_logarithms() -> None:
    random = np.random.default_rng(1)
    counts = np.where(random.random(2000) < 0.05, random.integers(1000, 5000, 2000), random.integers(0, 5, 2000))
    scaling = fit_scaling(("a",), counts[:, None].astype(np.float32))
    assert scaling.log.tolist() == [True]
    assert np.abs(scaling.apply(counts[:, None].astype(np.float32))).max() < 6


def test_columns_are_matched_by_name_and_absent_ones_are_unknown() -> None:
    values = np.array([[1.0, 10.0], [3.0, 30.0]], dtype=np.float32)
    scaling = fit_scaling(("a", "b"), values)
    np.testing.assert_allclose(scaling.select(("b", "a"), values[:, ::-1]), scaling.apply(values))
    assert scaling.select(("b",), values[:, 1:])[:, 0].tolist() == [0.0, 0.0]


def test_a_constant_or_empty_column_does_no_harm() -> None:
    values = np.array([[2.0, np.nan], [2.0, np.nan]], dtype=np.float32)
    out = fit_scaling(("a", "b"), values).apply(values)
    assert np.isfinite(out).all()


def test_a_value_too_large_for_its_type_leaves_the_others_as_they_are() -> None:
    values = np.random.default_rng(3).normal(size=(100, 1)).astype(np.float32)
    large = np.concatenate([values, np.array([[np.inf]], dtype=np.float32)])
    out = fit_scaling(("a",), large).apply(large)
    np.testing.assert_array_equal(out[:-1], fit_scaling(("a",), values).apply(values))
    assert out[-1, 0] == 8


def test_it_survives_json() -> None:
    values = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
    scaling = fit_scaling(("a", "b", "c"), values)
    np.testing.assert_array_equal(Scaling.from_dict(scaling.to_dict()).apply(values), scaling.apply(values))
