"""Public randomised trials of incentives and advertising, from files that a user supplies, as training frames."""

from shadowprice.datasets.trials.read import TrialTable, load, names

__all__ = ["TrialTable", "load", "names"]
