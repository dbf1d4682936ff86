"""Incremental effect of a campaign's arms: assignment, checks of it, lift with intervals, and the plan of a trial."""

from shadowprice.experiments.assignment import assign
from shadowprice.experiments.lifts import lift
from shadowprice.experiments.planning import plan

__all__ = ["assign", "lift", "plan"]
