"""A resource's cost as the kernel takes it: per level, plus level weights times matrices that exist already.

Nothing of shape (J, N) is formed: ``on_response`` stays levels × response, a limit per account becomes
a total, and a limit per response a second weighted matrix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.problem.problem import Problem, Resource, ResponseCost

Real = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Row:
    """One resource on a problem's accounts: Σ over the members of ``cost`` is at most ``capacity``.

    cost      net of the allowance per response
    planes    the matrices ``cost`` is made of
    capacity  right-hand side; a limit per account is multiplied out
    limit     what the measure is multiplied by; 0 unless the form is per response
    members   bool (N,) or None for all
    """

    cost: NetCost
    planes: tuple[Real, ...]
    capacity: float
    limit: float
    members: NDArray[np.bool_] | None


def row_of(problem: Problem, resource: Resource, counted: int | None = None) -> Row:
    """The kernel's form of a resource. Its costs must have passed :meth:`Problem.check`.

    ``counted`` is the number of accounts the limit counts, where the problem has only some of them.
    """
    depth, accounts = problem.shape
    none, one = np.zeros(depth), np.ones(depth)
    cost = resource.cost
    offset, planes, weights = none, [], []
    if isinstance(cost, ResponseCost):
        planes.append(problem.value if cost.response is None else cost.response)
        weights.append(cost.levels.astype(np.float64))
    elif cost.ndim == 1:
        offset = cost.astype(np.float64)
    else:
        planes.append(cost)
        weights.append(one)
    members = None if resource.members is None else problem.members(resource)
    if counted is None:
        counted = accounts if members is None else int(np.count_nonzero(members))
    capacity = resource.carry
    measured = 0
    if resource.form == "total":
        capacity += resource.limit
    elif resource.form == "per_account":
        capacity += resource.limit * counted
    else:
        assert resource.response is not None
        if planes and planes[0] is resource.response:
            weights[0] = weights[0] - resource.limit
        else:
            planes.append(resource.response)
            weights.append(-resource.limit * one)
        measured = len(planes)
    limit = resource.limit if resource.form == "per_response" else 0.0
    return Row(NetCost(offset, tuple(weights), measured), tuple(planes), capacity, limit, members)


def tile_of(
    value: Real,
    planes: tuple[Real, ...],
    *,
    pattern: NDArray[np.uint16] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> Tile:
    """Matrices as the kernel takes them: one floating type and one stride, converted only where they differ."""
    matrices = {id(matrix): matrix for matrix in (value, *planes)}
    single = all(matrix.dtype == np.float32 for matrix in matrices.values())
    dtype = np.dtype(np.float32 if single else np.float64)
    stride = value.strides[0]
    # Some columns of larger matrices are taken as they are.
    if stride <= 0 or any(m.dtype != dtype or m.strides != (stride, dtype.itemsize) for m in matrices.values()):
        matrices = {key: np.ascontiguousarray(matrix, dtype=dtype) for key, matrix in matrices.items()}
    if allowed is not None and (allowed.strides[1] != 1 or allowed.strides[0] < 0):
        allowed = np.ascontiguousarray(allowed)
    return Tile(matrices[id(value)], tuple(matrices[id(plane)] for plane in planes), pattern, allowed)
