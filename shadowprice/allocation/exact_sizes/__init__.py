"""Segments of exact sizes: guaranteed delivery under eligibility rules (S2)."""

from collections.abc import Callable

from shadowprice.allocation.exact_sizes.audit import Audit, audit
from shadowprice.allocation.exact_sizes.exact import solve_demands
from shadowprice.allocation.exact_sizes.greedy import greedy_demands
from shadowprice.allocation.exact_sizes.heuristic import heuristic_demands, literal_heuristic_demands
from shadowprice.allocation.exact_sizes.plan import NOBODY, Plan, Shortage
from shadowprice.allocation.exact_sizes.priority import priority_demands

METHODS: dict[str, Callable[..., Plan]] = {
    "exact": solve_demands,
    "heuristic": heuristic_demands,
    "literal_heuristic": literal_heuristic_demands,
    "priority": priority_demands,
    "greedy": greedy_demands,
}
"""Methods by name, each ``(value, demands, allowed=None) -> Plan``."""

__all__ = [
    "METHODS",
    "NOBODY",
    "Audit",
    "Plan",
    "Shortage",
    "audit",
    "greedy_demands",
    "heuristic_demands",
    "literal_heuristic_demands",
    "priority_demands",
    "solve_demands",
]
