"""Sequential test of one group of requests, and its finding."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from shadowprice.watch.evidence import evidence
from shadowprice.watch.finding import Finding


def tested(check: str, own: pd.DataFrame, low: ArrayLike, high: ArrayLike, limit: float, expected: str) -> Finding:
    """Test whether the mean responses of one side and level lie in a range.

    Args:
        check: name of the check.
        own: rows of the group, in order of time.
        low, high: range of the mean of each response.
        limit: of the logarithm of the evidence.
        expected: expected mean in words.

    Returns the finding, whose statistic is the largest evidence of all days. A group with a response above 1 is not
    tested: its statistic is 0.
    """
    side, level = str(own["side"].iloc[0]), int(own["level"].iloc[0])
    large = int((own["response"] > 1).sum())
    if large:
        return untested(check, own, limit, f"{large:,} responses are above 1")
    grown = evidence(own["response"].clip(lower=0.0), low, high, own["day"].to_numpy())
    alarms = np.flatnonzero(grown >= limit)
    verdict = f"evidence of a difference since day {alarms[0]}" if alarms.size else "no evidence of a difference"
    words = f"{side}, level {level}: mean response {own['response'].mean():.4f}, {expected}; {verdict}."
    day = int(alarms[0]) if alarms.size else -1
    return Finding(check, side, level, float(grown.max()), limit, bool(alarms.size), len(own), day, words)


def untested(check: str, own: pd.DataFrame, limit: float, reason: str) -> Finding:
    """Return the finding of a group that cannot be tested; its statistic is 0."""
    side, level = str(own["side"].iloc[0]), int(own["level"].iloc[0])
    words = f"{side}, level {level}: not tested, because {reason}."
    return Finding(check, side, level, 0.0, limit, False, len(own), -1, words)
