"""Sample-ratio mismatch of a running experiment, tested at every run of the watch."""

import numpy as np
import pandas as pd

from shadowprice.arms import Experiment
from shadowprice.experiments.analysis import ALARM, sample_ratios
from shadowprice.experiments.columns import Columns
from shadowprice.watch.finding import ALL_LEVELS, ALL_SIDES, SAMPLE_RATIO, Finding


def sample_ratio_finding(asked: pd.DataFrame, experiment: Experiment, columns: Columns) -> Finding:
    """Test whether the units that asked are divided as the shares state.

    The statistic is −log₁₀ of the always-valid p-value (Lindon and Malek 2022): however often the watch runs, it
    passes the limit falsely with probability :data:`~shadowprice.experiments.analysis.ALARM` at most.

    Args:
        asked: all requests of the campaign with their unit and ``day``; their outcomes may be open.
        experiment: as it is now.
        columns: names of the columns.
    """
    once, days, p_values = sample_ratios(asked, experiment, columns)
    statistic = -np.log10(np.maximum(np.array(p_values or (1.0,)), 1e-300))
    limit = float(-np.log10(ALARM))
    over = np.flatnonzero(statistic >= limit)
    worst = max(once.expected, key=lambda arm: abs(once.observed[arm] - once.expected[arm]))
    return Finding(
        SAMPLE_RATIO,
        ALL_SIDES,
        ALL_LEVELS,
        float(statistic[-1]) + 0.0,
        limit,
        bool(over.size),
        sum(once.observed.values()),
        days[over[0]] - days[0] if over.size else -1,
        f"arm {worst}: {once.observed[worst]:,} units asked, {once.expected[worst]:,.0f} expected.",
    )
