"""Allocation of a budget: the multiple-choice knapsack, its price of money, and the certificate."""

from shadowprice.allocation.exact_sizes import (
    NOBODY,
    Plan,
    Shortage,
    heuristic_demands,
    literal_heuristic_demands,
    priority_demands,
    solve_demands,
)
from shadowprice.allocation.executors.ray import RayExecutor
from shadowprice.allocation.problem.problem import Problem, Resource, on_response
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.allocation.solvers import solve
from shadowprice.allocation.sources import ShardWriter, StoredProblem, write_shards

__all__ = [
    "NOBODY",
    "Allocation",
    "Plan",
    "Problem",
    "RayExecutor",
    "Resource",
    "ShardWriter",
    "Shortage",
    "StoredProblem",
    "heuristic_demands",
    "literal_heuristic_demands",
    "on_response",
    "priority_demands",
    "solve",
    "solve_demands",
    "write_shards",
]
