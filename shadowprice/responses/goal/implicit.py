"""The gradient of an upper loss through the optimum of a lower one, without unrolling it (implicit differentiation)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, *, steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Solve A·u = ``target`` (P,) for a symmetric A known by its products, in at most ``steps`` of them.

    Stops where A shows a direction of non-positive curvature, with what was found before it; in the first
    step that is ``target`` itself, the gradient of a lower problem with the identity for its curvature.
    """
    solution = torch.zeros_like(target)
    residual = target.clone()
    direction, square = residual, residual @ residual
    for step in range(steps):
        if float(square) <= tolerance * float(target @ target):
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:
            return target if step == 0 else solution
        length = float(square) / curvature
        solution = solution + length * direction
        residual = residual - length * image
        previous, square = square, residual @ residual
        direction = residual + (square / previous) * direction
    return solution


def hypergradient(
    lower: Tensor,
    upper_gradient: Tensor,
    inner: Sequence[Tensor],
    outer: Sequence[Tensor],
    *,
    steps: int = 5,
    damping: float = 1e-2,
) -> list[Tensor]:
    """∂upper/∂φ at θ*(φ) = argmin_θ lower(θ, φ):  −∂_φ⟨∂_θ lower, u⟩ with (H + damping·I)·u = ∂_θ upper.

    Args:
        lower: the lower loss at θ*, a scalar with its graph.
        upper_gradient: (P,) ∂upper/∂θ, flat.
        inner: θ, in the order of ``upper_gradient``; outer: φ.
        steps: conjugate-gradient steps, each one product with the Hessian H = ∂²_θ lower.
        damping: added to H, which a network does not keep positive.

    Source: Pedregosa (ICML 2016); used so by Bi-DFCL (Zhang et al., NeurIPS 2025).
    """
    slope = flat(torch.autograd.grad(lower, inner, create_graph=True), inner)

    def product(vector: Tensor) -> Tensor:
        gradients = torch.autograd.grad(slope @ vector, inner, retain_graph=True, allow_unused=True)
        return flat(gradients, inner) + damping * vector

    solution = conjugate_gradient(product, upper_gradient, steps=steps)
    gradients = torch.autograd.grad(slope @ solution, outer, allow_unused=True)
    return [
        torch.zeros_like(parameter) if part is None else -part for part, parameter in zip(gradients, outer, strict=True)
    ]


def flat(parts: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """(P,): the parts in order, zeros where there is none."""
    pairs = zip(parts, like, strict=True)
    return torch.cat([(torch.zeros_like(parameter) if part is None else part).reshape(-1) for part, parameter in pairs])
