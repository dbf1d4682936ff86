"""Implicit differentiation against linear algebra and unrolled training."""

import numpy as np
import pytest
import torch

from shadowprice.responses.goal.implicit import conjugate_gradient, flat, hypergradient


def matrix(size: int, seed: int = 0) -> torch.Tensor:
    a = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return a @ a.T / size + 0.5 * torch.eye(size, dtype=torch.float64)


def test_conjugate_gradients_solve_the_system() -> None:
    a = matrix(12)
    b = torch.arange(12, dtype=torch.float64)
    found = conjugate_gradient(lambda v: a @ v, b, steps=12)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(a.numpy(), b.numpy()), rtol=1e-4)


def test_they_stop_where_the_matrix_bends_down() -> None:
    b = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(conjugate_gradient(lambda v: -v, b, steps=5), b)


def test_the_hypergradient_of_a_quadratic_is_exact() -> None:
    """lower = ½θᵀAθ − θᵀBφ has θ* = A⁻¹Bφ, so ∂(cᵀθ*)/∂φ = BᵀA⁻¹c."""
    a, b = matrix(6), torch.randn(6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    phi = torch.ones(4, dtype=torch.float64, requires_grad=True)
    theta = torch.linalg.solve(a, b @ phi.detach()).requires_grad_()
    c = torch.arange(6, dtype=torch.float64)
    lower = 0.5 * theta @ a @ theta - theta @ b @ phi
    (found,) = hypergradient(lower, c, [theta], [phi], steps=6, damping=0.0)
    torch.testing.assert_close(found, b.T @ torch.linalg.solve(a, c))


@pytest.mark.parametrize("steps", [1, 30])
def test_it_agrees_with_differences_of_retrained_optima(steps: int) -> None:
    """Ridge regression whose labels depend on φ; with more steps the estimate is better."""
    random = torch.Generator().manual_seed(3)
    x = torch.randn(50, 5, generator=random, dtype=torch.float64)
    noise = torch.randn(50, generator=random, dtype=torch.float64)
    aim = torch.randn(5, generator=random, dtype=torch.float64)
    gram = x.T @ x / 50 + 0.1 * torch.eye(5, dtype=torch.float64)

    def best(phi: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(gram, x.T @ (torch.tanh(phi[0] * x[:, 0]) + phi[1] * noise) / 50)

    phi = torch.tensor([0.7, 0.4], dtype=torch.float64, requires_grad=True)
    theta = best(phi.detach()).requires_grad_()
    label = torch.tanh(phi[0] * x[:, 0]) + phi[1] * noise
    lower = 0.5 * ((x @ theta - label) ** 2).mean() + 0.05 * theta @ theta
    upper = ((theta - aim) ** 2).sum()
    slope = flat(torch.autograd.grad(upper, [theta]), [theta])
    (found,) = hypergradient(lower, slope, [theta], [phi], steps=steps, damping=0.0)
    want = torch.stack(
        [
            (((best(phi + e) - aim) ** 2).sum() - ((best(phi - e) - aim) ** 2).sum()) / 2e-5
            for e in 1e-5 * torch.eye(2, dtype=torch.float64)
        ]
    ).detach()
    error = float((found - want).norm() / want.norm())
    assert error < (0.5 if steps == 1 else 1e-5)
