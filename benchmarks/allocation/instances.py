"""The allocation problems that engine and peers are measured on: random, monotone, ten levels, float32."""

import numpy as np

from shadowprice.allocation import Problem, Resource, on_response

LEVELS = np.arange(1, 11) * 20


def problem(kind: str, accounts: int, seed: int = 0) -> Problem:
    """``one``: a budget of 20 per account for incentives paid on response. ``eight``: budgets of eight groups that
    overlap, each account in about a third of them, and the same money in all."""
    random = np.random.default_rng(seed)
    value = random.random((LEVELS.size, accounts), dtype=np.float32)
    # In pieces: sorting a whole matrix of 4 GB would need another.
    for start in range(0, accounts, 1 << 20):
        value[:, start : start + (1 << 20)].sort(axis=0)
    if kind == "one":
        return Problem(value, [Resource.total("budget", on_response(LEVELS), 20.0 * accounts)])
    members = random.random((8, accounts)) < 0.35
    limits = random.uniform(12.0, 24.0, 8) * members.sum(axis=1)
    return Problem(
        value,
        [
            Resource.total(f"group {k}", on_response(LEVELS), float(limit), mask)
            for k, (limit, mask) in enumerate(zip(limits, members, strict=True))
        ],
    )
