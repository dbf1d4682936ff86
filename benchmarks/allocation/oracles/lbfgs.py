"""L-BFGS on the smoothed dual (S0): max_j is replaced by a log-sum-exp whose temperature falls towards zero."""

import numpy as np
from scipy.optimize import minimize

from benchmarks.allocation.oracles.dense import Dense, Vector
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation


def solve_lbfgs(problem: Problem, *, temperature: float = 1e-4, stages: int = 5, iterations: int = 200) -> Allocation:
    """Approximate optimum for any number of limits.

    The dual is convex and piecewise linear, and L-BFGS has no guarantee on it; on
    ``λ·c + τ·Σ_i log Σ_j exp((value_ij − λ·net_ij)/τ)`` it has. τ falls from a tenth of the largest value to
    ``temperature`` of it in so many ``stages``, each started from the last. The prices are then raised until the caps
    are kept; the bound is the true dual's. O(K·J·N) for each evaluation.

    Raises:
        InvalidProblem: a malformed resource.
    """
    dense = Dense.of(problem)
    # In units of the largest value and of each row's largest entry, prices are of size one.
    unit, accounts = dense.unit / dense.worth, problem.shape[1]

    def smoothed(scaled: Vector, tau: float) -> tuple[float, Vector]:
        prices = scaled / unit
        score = dense.score(prices)
        top = score.max(axis=0)
        weight = np.exp((score - top) / tau)
        total = weight.sum(axis=0)
        dual = float(prices @ dense.capacity + top.sum() + tau * np.log(total).sum())
        slope = dense.capacity - np.einsum("jn,kjn->k", weight / total, dense.net)
        return dual / (accounts * dense.worth), slope / unit / (accounts * dense.worth)

    bounds = list(zip(dense.lower.tolist(), dense.upper.tolist(), strict=True))
    scaled = np.zeros(len(problem.resources))
    for share in np.geomspace(0.1, temperature, stages):
        found = minimize(
            smoothed,
            scaled,
            args=(share * dense.worth,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": iterations, "ftol": 1e-15, "gtol": 1e-10},
        )
        scaled = np.asarray(found.x, dtype=np.float64)
    return dense.best_of([scaled / unit])
