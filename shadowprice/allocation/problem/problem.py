"""The allocation problem: one level per account, limits on what the levels cost.

    maximize    Σ_ij x_ij · value_ij
    subject to  Σ_j x_ij = 1,  x ≥ 0,  x_ij = 0 where not allowed,
                Σ_ij x_ij · (cost_kij − limit_k · m_kij) ≤ capacity_k      for every resource k

which covers S0 eq. 16–18 and S1 eq. 2, 4 and 5: m is 0 for a total, 1 for a mean per account and
the response for a mean per response. A resource may also be a floor (≥) or an equality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.kernel import Bounds, scan
from shadowprice.campaign import BudgetForm
from shadowprice.curves import check_amounts
from shadowprice.errors import InvalidProblem

Matrix = NDArray[np.float64]

Sense = Literal["at_most", "at_least", "exactly"]
"""A cap, whose price is ≥ 0; a floor, whose price is ≤ 0; an equality, whose price has either sign."""


@dataclass(frozen=True, eq=False)
class ResponseCost:
    """A cost paid on response: ``levels × response``, formed only when a solver asks for it."""

    levels: NDArray[np.int64]
    response: NDArray[np.floating[Any]] | None


def on_response(levels: ArrayLike, response: ArrayLike | None = None) -> ResponseCost:
    """The cost of an incentive paid only when the account responds: levels (J,) × response (J, N).

    The levels are costs in any order; several may be equal or 0. ``response`` defaults to the problem's value.
    """
    return ResponseCost(check_amounts(levels), None if response is None else np.asarray(response))


@dataclass(frozen=True, eq=False, kw_only=True)
class Resource:
    """One limit. Build it with :meth:`total`, :meth:`per_account` or :meth:`per_response`.

    name      unique within the problem
    cost      (J, N), or (J,) per level (paid on grant), or :func:`on_response`; never negative
    limit     minor units: in all, per account, or per unit of response
    response  (J, N), what a mean per response is taken over
    members   bool (N,) or indices of the accounts it counts; None for all
    carry     minor units added to what may be spent (negative: already overspent)
    sense     whether the limit is a cap (the default), a floor or to be met exactly
    """

    name: str
    form: BudgetForm
    cost: NDArray[np.floating[Any]] | ResponseCost
    limit: float
    response: NDArray[np.floating[Any]] | None = None
    members: NDArray[np.bool_] | NDArray[np.intp] | None = None
    carry: float = 0.0
    sense: Sense = "at_most"

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidProblem("must not be empty", field="resource.name")
        if not (np.isfinite(self.limit) and self.limit >= 0):
            raise InvalidProblem(f"must be finite and not negative, got {self.limit}", field=f"{self.name}.limit")
        if not np.isfinite(self.carry):
            raise InvalidProblem("must be finite", field=f"{self.name}.carry")
        if self.sense not in get_args(Sense):
            raise InvalidProblem(f"must be one of {get_args(Sense)}, got {self.sense!r}", field=f"{self.name}.sense")

    @classmethod
    def total(
        cls,
        name: str,
        cost: ArrayLike | ResponseCost,
        limit: float,
        members: ArrayLike | None = None,
        *,
        carry: float = 0.0,
        sense: Sense = "at_most",
    ) -> Resource:
        """The sum of cost over the members is at most ``limit``, or as ``sense`` says."""
        return cls._of("total", name, cost, limit, members, carry, sense)

    @classmethod
    def per_account(
        cls,
        name: str,
        cost: ArrayLike | ResponseCost,
        limit: float,
        members: ArrayLike | None = None,
        *,
        carry: float = 0.0,
        sense: Sense = "at_most",
    ) -> Resource:
        """The mean cost per member is at most ``limit``, or as ``sense`` says."""
        return cls._of("per_account", name, cost, limit, members, carry, sense)

    @classmethod
    def per_response(
        cls,
        name: str,
        cost: ArrayLike | ResponseCost,
        limit: float,
        response: ArrayLike,
        members: ArrayLike | None = None,
        *,
        carry: float = 0.0,
        sense: Sense = "at_most",
    ) -> Resource:
        """Cost per unit of response over the members is at most ``limit`` (the paper's B), or as ``sense`` says."""
        return cls._of("per_response", name, cost, limit, members, carry, sense, np.asarray(response))

    @classmethod
    def _of(
        cls,
        form: BudgetForm,
        name: str,
        cost: ArrayLike | ResponseCost,
        limit: float,
        members: ArrayLike | None,
        carry: float,
        sense: Sense,
        response: NDArray[np.floating[Any]] | None = None,
    ) -> Resource:
        return cls(
            name=name,
            form=form,
            cost=_cost(cost),
            limit=float(limit),
            response=response,
            members=_members(members),
            carry=carry,
            sense=sense,
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Problem of which level to give each account.

    value      (J, N), worth of each level; float32, level-major
    resources  the limits; names unique
    allowed    bool (J, N); None allows every level. Every account needs one allowed level.

    Shapes and types are refused here. The numbers themselves are checked where they are read anyway: when the
    problem is solved.
    """

    value: NDArray[np.floating[Any]]
    resources: Sequence[Resource]
    allowed: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        value = check_values(self.value, "levels")
        object.__setattr__(self, "_bounds", {})
        if isinstance(self.resources, Resource):
            raise InvalidProblem("must be a list of resources, not one resource", field="resources")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "resources", tuple(self.resources))
        names = [resource.name for resource in self.resources]
        if len(set(names)) != len(names):
            raise InvalidProblem(f"names must be unique, got {names}", field="resources")
        if self.allowed is not None:
            allowed = check_allowed(self.allowed, value.shape, "every account needs an allowed level")
            object.__setattr__(self, "allowed", allowed)

    @property
    def shape(self) -> tuple[int, int]:
        """(levels J, accounts N)."""
        return (int(self.value.shape[0]), int(self.value.shape[1]))

    def members(self, resource: Resource) -> NDArray[np.bool_]:
        """bool (N,): the accounts that a resource counts."""
        accounts = self.shape[1]
        if resource.members is None:
            return np.ones(accounts, dtype=bool)
        if resource.members.dtype == np.bool_:
            if resource.members.shape != (accounts,):
                raise InvalidProblem(f"must have shape ({accounts},)", field=f"{resource.name}.members")
            return np.asarray(resource.members, dtype=bool)
        mask = np.zeros(accounts, dtype=bool)
        if resource.members.size and (resource.members.min() < 0 or resource.members.max() >= accounts):
            raise InvalidProblem(f"indices must lie in [0, {accounts})", field=f"{resource.name}.members")
        mask[resource.members] = True
        return mask

    def check(self, resource: Resource, *, numbers: bool = True) -> None:
        """Refuse a resource that does not fit the problem, and numbers that no solver may use.

        One read, without a copy: values, costs and responses must be finite, the last two not negative. With
        ``numbers=False`` only what has the shape of the levels is read, for callers whose own pass reads the rest.
        """
        if numbers:
            self.check_value()
        depth, field = self.shape[0], f"{resource.name}.cost"
        cost = resource.cost
        matrix: ArrayLike | None
        if isinstance(cost, ResponseCost):
            if cost.levels.shape != (depth,):
                raise InvalidProblem(f"needs {depth} levels, got {cost.levels.size}", field=field)
            matrix = self.value if cost.response is None else cost.response
        elif cost.ndim == 1:
            if cost.shape != (depth,):
                raise InvalidProblem(f"needs one cost per level ({depth}), got {cost.size}", field=field)
            matrix = cost[:, None]
        else:
            matrix = cost
        self._not_negative(matrix, field, numbers)
        if resource.form == "per_response":
            self._not_negative(resource.response, f"{resource.name}.response", numbers)
        if resource.members is not None:
            self.members(resource)

    def check_value(self) -> None:
        """Refuse values that are NaN or infinite; one read."""
        self._bounded(self.value, "value")

    def _bounded(self, matrix: NDArray[np.floating[Any]], field: str) -> Bounds:
        known: dict[int, Bounds] = self.__dict__["_bounds"]
        if id(matrix) not in known:
            known[id(matrix)] = finite_bounds(matrix, field)
        return known[id(matrix)]

    def _not_negative(self, array: ArrayLike | None, field: str, numbers: bool) -> None:
        matrix = np.asarray(array)
        per_level = matrix.shape == (self.shape[0], 1)
        if matrix.shape != self.shape and not per_level:
            raise InvalidProblem(f"must have shape (levels, accounts) = {self.shape}, got {matrix.shape}", field=field)
        if (numbers or per_level) and self._bounded(matrix, field).least < 0:
            InvalidProblem.refuse_rows(matrix < 0, "must not be negative", field=field)


def _cost(cost: ArrayLike | ResponseCost) -> NDArray[np.floating[Any]] | ResponseCost:
    if isinstance(cost, ResponseCost):
        return cost
    array = np.asarray(cost)
    if array.ndim not in (1, 2):
        raise InvalidProblem(f"must have shape (levels,) or (levels, accounts), got {array.shape}", field="cost")
    # A float32 matrix stays as it is: the kernel reads it in place.
    return array if array.ndim == 2 and array.dtype == np.float32 else array.astype(np.float64, copy=False)


def _members(members: ArrayLike | None) -> NDArray[np.bool_] | NDArray[np.intp] | None:
    if members is None:
        return None
    array = np.asarray(members)
    if array.ndim != 1 or not (array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer)):
        raise InvalidProblem("must be a boolean mask or indices, one-dimensional", field="members")
    return array if array.dtype == np.bool_ else array.astype(np.intp)


def check_values(value: ArrayLike, rows: str) -> NDArray[np.floating[Any]]:
    """Values (J, N) as an array; ``rows`` names the first axis in messages."""
    matrix = np.asarray(value)
    if matrix.ndim != 2 or matrix.size == 0:
        raise InvalidProblem(f"must have shape ({rows}, accounts) and not be empty, got {matrix.shape}", field="value")
    if not np.issubdtype(matrix.dtype, np.floating):
        raise InvalidProblem(f"must be floating point, got {matrix.dtype}", field="value")
    return matrix


def check_allowed(allowed: ArrayLike, shape: tuple[int, ...], stuck: str) -> NDArray[np.bool_]:
    """Allowed pairs as bool (J, N); ``stuck`` is the message for accounts without any."""
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise InvalidProblem(f"must be boolean of shape {shape}, got {mask.dtype} {mask.shape}", field="allowed")
    InvalidProblem.refuse_rows(~mask.any(axis=0), stuck, field="allowed")
    return mask


def finite_bounds(array: NDArray[np.floating[Any]], field: str) -> Bounds:
    """Return the smallest and the largest entry of a matrix (J, N); refuses NaN and infinity."""
    bounds = scan(array)
    if not bounds.finite:
        InvalidProblem.refuse_rows(~np.isfinite(array), "must be finite; accounts with NaN or infinity", field=field)
    return bounds
