"""The allocation problem for DuaLip (https://github.com/linkedin/DuaLip), as an objective of its solver.

DuaLip 5 maximizes the dual of a linear program with a ridge term, γ/2 |x|², by accelerated gradient ascent. Its own
``matching`` objective gives every row the entries of one item; a budget counts all levels, so the objective is written
here on the interfaces that DuaLip has for that purpose (``BaseObjective``, the projection ``simplex_eq``,
``AcceleratedGradientDescent``). Source: Basu et al. (ICML 2020), ECLIPSE.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.allocation.oracles.dense import Dense
from shadowprice.allocation import Problem

GAMMA = 1e-3
"""Ridge, in units of the largest value; DuaLip's default, as are the sizes of steps of its own benchmark."""

STEP, LONGEST_STEP, ITERATIONS = 1e-3, 0.1, 1_000

Projection = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Rows:
    """Minimize Σ −value · x subject to Σ net_k · x ≤ capacity_k and each account's shares x in the simplex.

    value     (J, N), in units of ``worth``
    net       (K, J, N), each row divided by its norm √N-fold, so that prices have a common scale
    capacity  (K,), in the rows' units, per account
    """

    value: torch.Tensor
    net: torch.Tensor
    capacity: torch.Tensor
    worth: float
    unit: np.ndarray

    @classmethod
    def of(cls, given: Problem) -> Rows:
        """The rows of a problem. O(K·J·N), in float64."""
        dense = Dense.of(given)
        net, capacity = dense.net, dense.capacity
        accounts = given.shape[1]
        unit = np.sqrt((net**2).sum(axis=(1, 2)) / accounts)
        worth = float(np.abs(given.value).max())
        return cls(
            torch.from_numpy(given.value.astype(np.float64) / worth),
            torch.from_numpy(net / unit[:, None, None]),
            torch.from_numpy(capacity / unit),
            worth,
            unit,
        )

    def shares(self, prices: torch.Tensor, gamma: float, project: Projection) -> torch.Tensor:
        """(J, N): the shares that minimize the Lagrangian with the ridge term."""
        point = (self.value - torch.einsum("k,kjn->jn", prices, self.net)) / gamma
        # Projections on the simplex do not see a shift of a column; DuaLip's first cuts off what is negative.
        return project(point - point.amax(dim=0) + 1.0)

    def lagrangian(self, prices: torch.Tensor, shares: torch.Tensor, gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The dual objective per account and its gradient (K,), at the shares that belong to the prices."""
        accounts = shares.shape[1]
        gradient = (torch.einsum("kjn,jn->k", self.net, shares) - self.capacity) / accounts
        ridge = gamma / 2 * (shares**2).sum() / accounts
        return prices @ gradient + ridge - (self.value * shares).sum() / accounts, gradient

    def bound(self, prices: torch.Tensor) -> float:
        """The dual without the ridge term, in the problem's units: an upper bound on every feasible value."""
        score = self.value - torch.einsum("k,kjn->jn", prices, self.net)
        return self.worth * float(prices @ self.capacity + score.amax(dim=0).sum())


def objective(rows: Rows, project: Projection, base: type, result: type) -> Any:
    """An instance of DuaLip's ``BaseObjective`` that answers with its ``ObjectiveResult``."""

    class Knapsack(base):  # type: ignore[misc]
        equality_mask = None

        def calculate(self, dual_val: torch.Tensor, gamma: float = GAMMA, save_primal: bool = False, **_: Any) -> Any:
            shares = rows.shares(dual_val, gamma, project)
            dual, gradient = rows.lagrangian(dual_val, shares, gamma)
            found = result(dual_gradient=gradient, dual_objective=dual)
            if save_primal:
                found.primal_var = shares
            return found

    return Knapsack()


def solve_dualip(given: Problem) -> dict[str, Any]:
    """Solve by DuaLip on the processor; only its ascent is timed.

    Raises:
        ImportError: DuaLip is not installed.
    """
    from dualip.objectives.base import BaseObjective
    from dualip.optimizers.agd import AcceleratedGradientDescent
    from dualip.projections import project
    from dualip.types import ObjectiveResult

    rows = Rows.of(given)
    ascent = AcceleratedGradientDescent(
        max_iter=ITERATIONS,
        gamma=GAMMA,
        initial_step_size=STEP,
        max_step_size=LONGEST_STEP,
        save_primal=True,
        iteration_callback=lambda *_: None,
    )
    knapsack = objective(rows, project("simplex_eq"), BaseObjective, ObjectiveResult)
    started, used = time.perf_counter(), time.process_time()
    found = ascent.maximize(knapsack, torch.zeros_like(rows.capacity))
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    shares = found.objective_result.primal_var
    primal = rows.worth * float((rows.value * shares).sum())
    bound = rows.bound(found.dual_val)
    spent = torch.einsum("kjn,jn->k", rows.net, shares)
    return {
        "seconds": seconds,
        "processor": processor,
        "objective": primal,
        "gap": (bound - primal) / abs(bound),
        "violation": float((spent / rows.capacity).max() - 1.0),
    }
