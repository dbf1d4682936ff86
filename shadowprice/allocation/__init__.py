"""Spending a budget: the multiple-choice knapsack, its price of money, and the certificate."""

from shadowprice.allocation.problem import Problem, Resource, on_response
from shadowprice.allocation.solution import Allocation
from shadowprice.allocation.solvers import solve

__all__ = ["Allocation", "Problem", "Resource", "on_response", "solve"]
