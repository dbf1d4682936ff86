"""The loop at sizes that were not run, on a cluster: a simulation from the measured cost of each step.

Nothing here was run on a cluster. A step's cost is the line through its two largest measurements. Shards are handed to
workers as these become free; each takes its own time, and some are lost with their worker and done again.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SHARDED = {"solve": "yes", "train": "gradient steps, embeddings", "featurize": "the join of features"}
"""Step → what several processes share today; of the others the simulation says what sharing them would bring."""
SHARD_ACCOUNTS = 1_000_000
SPREAD = 0.2
"""Standard deviation of the logarithm of a shard's time: assumed."""
LOST = 0.01
"""Probability that a shard is lost and done again: assumed."""
DRAWS = 20


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a step: ``fixed`` + ``each`` · accounts."""

    fixed: float
    each: float

    @classmethod
    def through(cls, measured: Mapping[int, float]) -> Cost:
        """Return the line through the two largest sizes; neither part is negative.

        Args:
            measured: accounts → CPU seconds, of two sizes at least.
        """
        (few, cheap), (many, dear) = sorted(measured.items())[-2:]
        each = max((dear - cheap) / (many - few), 0.0)
        return cls(max(dear - each * many, 0.0), each)


def shared_seconds(cost: Cost, accounts: int, workers: int, seed: int = 0) -> float:
    """Mean time of a step whose shards of :data:`SHARD_ACCOUNTS` accounts are shared by workers of one core each.

    Example:
        >>> round(shared_seconds(Cost(10.0, 0.0), 1_000_000_000, 100))
        10
    """
    random = np.random.default_rng(seed)
    shards = -(-accounts // SHARD_ACCOUNTS)
    mean = cost.each * min(accounts, SHARD_ACCOUNTS)
    return cost.fixed + float(np.mean([_makespan(_times(random, shards, mean), workers) for _ in range(DRAWS)]))


def _times(random: np.random.Generator, shards: int, mean: float) -> np.ndarray:
    """Seconds of each shard: of the given mean, and once more for each time that it is lost."""
    runs = random.geometric(1.0 - LOST, shards)
    each: np.ndarray = mean * random.lognormal(-(SPREAD**2) / 2, SPREAD, shards) * runs
    return each


def _makespan(times: Sequence[float] | np.ndarray, workers: int) -> float:
    """Time until the last shard is done, each taken by the worker that is free first."""
    free = [0.0] * min(workers, len(times))
    for each in times:
        heapq.heapreplace(free, free[0] + float(each))
    return max(free)
