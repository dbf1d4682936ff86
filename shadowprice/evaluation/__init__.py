"""Quality of a response model, with intervals, and the gate before publication."""

from shadowprice.evaluation import metrics
from shadowprice.evaluation.statistics.intervals import Estimate, Interval

__all__ = ["Estimate", "Interval", "metrics"]
