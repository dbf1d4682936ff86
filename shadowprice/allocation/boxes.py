"""The prices of several limits by boxes."""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.certificate import Located
from shadowprice.allocation.core import Core
from shadowprice.allocation.population import Population
from shadowprice.allocation.rows import Rows
from shadowprice.allocation.vertex import optimum


def locate(population: Population, rows: Rows) -> Located:
    """Find the prices at which the dual is lowest."""
    n = population.accounts
    everyone = population.sample(np.zeros(1, dtype=np.int64), n)
    sums = np.zeros((rows.loads.shape[1], 2 + 2 * len(rows.costs)))
    core = Core.of(everyone, rows)
    vertex = optimum(core, rows.capacity, rows.lower, rows.upper, rows.slack(sums), np.zeros(rows.count))
    return Located(rows, sums, everyone, np.arange(n), core, vertex, np.zeros(n, dtype=np.int32), 1)
