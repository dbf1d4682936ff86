"""HiGHS as an oracle: the linear programme, and the integer one, written out row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shadowprice.allocation.problem.dense import Dense, Vector
from shadowprice.allocation.problem.problem import Matrix, Problem
from shadowprice.allocation.problem.solution import Allocation, pick, relative_gap
from shadowprice.errors import InvalidProblem, MissingExtra, Unavailable

METHODS = ("choose", "simplex", "ipm", "pdlp")


@dataclass(frozen=True, eq=False)
class _Answer:
    """Result of HiGHS: shares (J, N), prices (K,) and its own bound; None where the limits cannot be met."""

    shares: Matrix
    prices: Vector
    bound: float


def solve_highs_lp(problem: Problem, *, method: str = "choose", seconds: float = np.inf) -> Allocation:
    """The linear programme by HiGHS. ``fractional`` holds the accounts it splits.

    Certified like every other answer: the gap is to the dual at HiGHS's prices, computed here in float64. A row of
    size one and values of size one keep its absolute tolerances meaningful.

    Args:
        problem: any number of limits; memory is some forty times the input.
        method: one of ``METHODS``.
        seconds: time limit.

    Raises:
        MissingExtra: highspy is not installed.
        Unavailable: no answer within the time.
        InvalidProblem: an unknown method, or a malformed resource.
    """
    if method not in METHODS:
        raise InvalidProblem(f"must be one of {METHODS}, got {method!r}", field="method")
    dense = Dense.of(problem)
    found = _run(dense, method, seconds, whole=False)
    return dense.infeasible() if found is None else dense.fractional(found.shares, found.prices)


def solve_highs_milp(problem: Problem, *, seconds: float = np.inf, gap: float = 1e-9) -> Allocation:
    """The best answer in whole levels by HiGHS's branch and bound.

    ``primal``, ``spend`` and ``violation`` are those of ``level``; ``dual`` is branch and bound's own, so that the gap
    compares whole answers. Prices are those of the linear relaxation. It stops at a relative ``gap``, or after so many
    ``seconds`` with the best answer so far, which is then ``approximate``.

    Raises:
        MissingExtra: highspy is not installed.
        Unavailable: no answer at all within the time.
        InvalidProblem: a malformed resource.
    """
    dense = Dense.of(problem)
    relaxed = _run(dense, "choose", seconds, whole=False)
    found = None if relaxed is None else _run(dense, "choose", seconds, whole=True, gap=gap)
    if relaxed is None or found is None:
        return dense.infeasible()
    level = found.shares.argmax(axis=0)
    primal = float(pick(dense.value, level).sum())
    reached = relative_gap(primal, found.bound, float(np.abs(pick(dense.value, level)).sum()))
    paid = np.array([pick(each, level).sum() for each in dense.paid])
    violation = dense.violation_of(level)
    return Allocation(
        status="optimal" if reached <= max(gap, 1e-9) and violation <= 1e-9 else "approximate",
        prices=np.clip(relaxed.prices, dense.lower, dense.upper),
        tie_share=0.0,
        level=level.astype(np.int32),
        primal=primal,
        dual=found.bound,
        gap=reached,
        violation=violation,
        spend=paid,
        rounded=primal,
        tied=0,
        rounded_violation=violation,
    )


def _run(dense: Dense, method: str, seconds: float, *, whole: bool, gap: float = 0.0) -> _Answer | None:
    highspy = _highspy()
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
    if whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * size
    solver = highspy.Highs()
    solver.silent()
    for name, value in {
        "solver": method,
        "time_limit": float(seconds) if np.isfinite(seconds) else highspy.kHighsInf,
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        "small_matrix_value": 1e-12,
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": 1e-10,
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
    prices = np.zeros(rows) if whole else np.asarray(solution.row_dual)[accounts:] * dense.worth / dense.unit
    bound = float(info.mip_dual_bound if whole else info.objective_function_value) * dense.worth
    return _Answer(shares, prices, bound)


def _highspy() -> Any:
    try:
        import highspy
    except ImportError as error:
        raise MissingExtra("solvers 'highs_lp' and 'highs_milp' need highspy; install shadowprice[solvers]") from error
    return highspy
