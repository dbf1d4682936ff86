"""Functions of arrays of both libraries against scipy, and response functions in one library against the other."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy import special

from shadowprice.responses.arrays import (
    cumulative_hazard,
    library,
    line,
    redemption,
    relu,
    sensitivity,
    sigmoid,
    softmax_mean,
    softplus,
    two_towers,
    unit_length,
)

X = np.random.default_rng(0).normal(scale=4.0, size=(7, 5))
VALUE = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
REFERENCE = {
    sigmoid: special.expit,
    softplus: lambda x: -special.log_expit(-x),
    relu: lambda x: np.where(x > 0, x, 0.0),
    partial(softmax_mean, value=VALUE, axis=1): lambda x: special.softmax(x, axis=1) @ VALUE[:, None],
    partial(unit_length, axis=1): lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
}


@pytest.mark.parametrize("number", range(len(REFERENCE)))
def test_a_function_is_that_of_scipy_in_both_libraries(number: int) -> None:
    function, reference = list(REFERENCE.items())[number]
    ours = function(X)
    assert library(ours) is np
    np.testing.assert_allclose(ours, reference(X), rtol=1e-12, atol=1e-15)
    if isinstance(function, partial) and "value" in function.keywords:
        function = partial(function.func, value=torch.from_numpy(VALUE), axis=1)
    theirs = function(torch.from_numpy(X))
    assert library(theirs) is torch
    # softplus of torch is linear beyond 20.
    np.testing.assert_allclose(theirs.numpy(), reference(X), rtol=1e-8, atol=1e-12)


WIDTH = np.array([0.0, 0.2, 0.3, 0.5, 1.0])
FUNCTIONS = {
    "hazard": lambda x, w, axis: redemption(cumulative_hazard(x, w, x[:, :1] if axis == 1 else x[:1], axis)),
    "line": lambda x, w, axis: line(softplus(x[:, :1] if axis == 1 else x[:1]), w, x),
    "segments": lambda x, w, axis: sensitivity(x, w.reshape(-1), axis),
    "two towers": lambda x, w, axis: two_towers(x, lambda h: h - 1, lambda h: h + w, lambda u: u * w, axis),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_response_function_is_the_same_for_rows_of_accounts_and_rows_of_levels(name: str) -> None:
    function = FUNCTIONS[name]
    training = function(torch.from_numpy(X), torch.from_numpy(WIDTH), 1).numpy()
    serving = function(np.ascontiguousarray(X.T), WIDTH[:, None], 0)
    np.testing.assert_allclose(serving, training.T, rtol=1e-8, atol=1e-12)
