"""Spending a budget: the multiple-choice knapsack, its price of money, and the certificate."""

from shadowprice.allocation.executors.ray import RayExecutor
from shadowprice.allocation.problem import Problem, Resource, on_response
from shadowprice.allocation.solution import Allocation
from shadowprice.allocation.solvers import solve
from shadowprice.allocation.sources import CurveProblem, ShardWriter, StoredProblem, write_shards

__all__ = [
    "Allocation",
    "CurveProblem",
    "Problem",
    "RayExecutor",
    "Resource",
    "ShardWriter",
    "StoredProblem",
    "on_response",
    "solve",
    "write_shards",
]
