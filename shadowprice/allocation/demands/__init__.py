"""Segments of exact sizes: guaranteed delivery under eligibility rules (S2)."""

from __future__ import annotations

from collections.abc import Callable

from shadowprice.allocation.demands.audit import Audit, audit
from shadowprice.allocation.demands.exact import solve_demands
from shadowprice.allocation.demands.heuristic import heuristic_demands, literal_heuristic_demands
from shadowprice.allocation.demands.online import SeatQuota
from shadowprice.allocation.demands.plan import NOBODY, Plan, Shortage
from shadowprice.allocation.demands.priority import priority_demands

METHODS: dict[str, Callable[..., Plan]] = {
    "exact": solve_demands,
    "heuristic": heuristic_demands,
    "literal_heuristic": literal_heuristic_demands,
    "priority": priority_demands,
}
"""Methods by name, each ``(value, demands, allowed=None) -> Plan``."""

__all__ = [
    "METHODS",
    "NOBODY",
    "Audit",
    "Plan",
    "SeatQuota",
    "Shortage",
    "audit",
    "heuristic_demands",
    "literal_heuristic_demands",
    "priority_demands",
    "solve_demands",
]
