"""Quality of a response model, with intervals, and the gate before publication."""

from shadowprice.evaluation import metrics
from shadowprice.evaluation.statistics.intervals import Estimate, Interval
from shadowprice.evaluation.statistics.pairs import paired_difference, paired_over_seeds

__all__ = ["Estimate", "Interval", "metrics", "paired_difference", "paired_over_seeds"]
