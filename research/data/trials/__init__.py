"""Public randomized trials of incentives and advertising, from files that a user supplies, as training frames."""

from research.data.trials.read import TrialTable, load, names

__all__ = ["TrialTable", "load", "names"]
