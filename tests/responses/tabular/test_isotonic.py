import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowprice.responses.tabular.isotonic import isotonic_embedding, smoothness


def test_the_embedding_is_the_indicator_of_levels_reached() -> None:
    levels = [0, 10, 40, 100]
    for j, amount in enumerate(levels):
        np.testing.assert_array_equal(isotonic_embedding(4)[j], [amount >= each for each in levels[1:]])


weights = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


@settings(max_examples=100, deadline=None)
@given(values=weights, scale=st.floats(1e-3, 1e3))
def test_smoothness_is_the_printed_formula_and_does_not_see_the_scale(values: list[float], scale: float) -> None:
    weight = np.array(values)
    printed = np.mean((weight[1:] - weight[:-1]) ** 2 / (weight[1:] * weight[:-1]))
    tensor = torch.tensor(weight)[None]
    assert float(smoothness(tensor)) == pytest.approx(printed, rel=1e-9, abs=1e-12)
    assert float(smoothness(scale * tensor)) == pytest.approx(printed, rel=1e-6, abs=1e-10)
    assert (float(smoothness(tensor)) < 1e-14) == np.allclose(weight, weight[0], rtol=1e-7)


def test_smoothness_is_two_cosh_of_the_log_ratio_less_two_to_fourteen_digits() -> None:
    ratio = np.linspace(-5, 5, 41)
    weight = torch.tensor(np.stack([np.exp(ratio), np.ones(41)], axis=1))
    np.testing.assert_allclose(smoothness(weight).numpy(), 2 * np.cosh(ratio) - 2, rtol=1e-13, atol=1e-14)


def test_smoothness_and_its_gradient_stay_finite_where_the_printed_form_divides_by_nothing() -> None:
    weight = torch.tensor([[1e-30, 1.0, 1e30], [1e-6, 1e-6, 1e-6]], requires_grad=True)
    found = smoothness(weight).sum()
    found.backward()
    assert torch.isfinite(found)
    assert torch.isfinite(weight.grad).all()
    dead = torch.zeros(1, 3)
    assert torch.isnan((dead[:, 1:] - dead[:, :-1]) ** 2 / (dead[:, 1:] * dead[:, :-1])).all()


def test_one_weight_is_smooth() -> None:
    assert smoothness(torch.ones(3, 1)).tolist() == [0, 0, 0]


def test_the_gradient_of_the_smoothness_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    weight = (torch.rand(4, 6, dtype=torch.float64) + 0.05).requires_grad_()
    assert torch.autograd.gradcheck(smoothness, (weight,))
