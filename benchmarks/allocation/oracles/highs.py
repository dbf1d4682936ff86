"""HiGHS as an oracle: the linear program, written out row by row."""

from dataclasses import dataclass

import highspy
import numpy as np

from benchmarks.allocation.oracles.dense import Dense, Vector
from shadowprice.allocation.problem.problem import Matrix, Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.errors import Unavailable


@dataclass(frozen=True, eq=False)
class _Answer:
    """Result of HiGHS: shares (J, N) and prices (K,)."""

    shares: Matrix
    prices: Vector


def solve_highs_lp(problem: Problem, *, method: str = "choose", seconds: float = np.inf) -> Allocation:
    """The linear program by HiGHS. ``fractional`` holds the accounts it splits.

    Certified like every other answer: the gap is to the dual at HiGHS's prices, computed here in float64. A row of
    size one and values of size one keep its absolute tolerances meaningful.

    Args:
        problem: any number of limits; memory is some forty times the input.
        method: choose, simplex, ipm or pdlp.
        seconds: time limit.

    Raises:
        Unavailable: no answer within the time.
        InvalidProblem: a malformed resource.
    """
    dense = Dense.of(problem)
    found = _run(dense, method, seconds)
    return dense.infeasible() if found is None else dense.fractional(found.shares, found.prices)


def _run(dense: Dense, method: str, seconds: float) -> _Answer | None:
    """Return None where the limits cannot be met."""
    depth, accounts = dense.value.shape
    rows, size = dense.capacity.size, depth * accounts
    # Rows and values of size one: HiGHS's tolerances are absolute.
    net = (dense.net / dense.unit[:, None, None]).reshape(rows, size)
    capacity = dense.capacity / dense.unit
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = size, accounts + rows
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = (dense.value / dense.worth).ravel()
    model.col_lower_ = np.zeros(size)
    model.col_upper_ = dense.allowed.ravel().astype(np.float64)
    model.row_lower_ = np.concatenate([np.ones(accounts), np.where(dense.lower < 0, capacity, -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate([np.ones(accounts), np.where(dense.upper > 0, capacity, highspy.kHighsInf)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    column = np.arange(size)
    model.a_matrix_.start_ = np.arange(0, (size + 1) * (rows + 1), rows + 1)[: size + 1]
    limits = np.broadcast_to(accounts + np.arange(rows)[:, None], (rows, size))
    model.a_matrix_.index_ = np.vstack([column % accounts, limits]).T.ravel()
    model.a_matrix_.value_ = np.vstack([np.ones(size), net]).T.ravel()
    solver = highspy.Highs()
    solver.silent()
    for name, value in {
        "solver": method,
        "time_limit": float(seconds) if np.isfinite(seconds) else highspy.kHighsInf,
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        "small_matrix_value": 1e-12,
    }.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    solver.run()
    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise Unavailable(f"HiGHS found no answer in {seconds} s: {solver.modelStatusToString(status)}")
    solution = solver.getSolution()
    shares = np.asarray(solution.col_value).reshape(depth, accounts)
    prices = np.asarray(solution.row_dual)[accounts:] * dense.worth / dense.unit
    return _Answer(shares, prices)
