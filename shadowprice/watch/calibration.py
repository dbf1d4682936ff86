"""Sequential test of calibration by side and level."""

import math

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.watch.evidence import SMALLEST
from shadowprice.watch.finding import Finding
from shadowprice.watch.reference import Reference
from shadowprice.watch.sequential import tested


def calibration(rows: pd.DataFrame, reference: Reference) -> list[Finding]:
    """Test the responses of each side and level against the predictions.

    The null hypothesis: the mean of each response lies within ``reference.tolerance`` log odds of its prediction. The
    rate of false alarms of all groups together, at any time, is at most ``reference.rate``.

    Args:
        rows: table of :func:`shadowprice.watch.rows.watched_rows`.
        reference: levels of each side, tolerance and rate.

    Returns one finding for each side and level with rows. The statistic is the logarithm of the largest evidence, the
    limit log(groups / rate).
    """
    limit = math.log(reference.groups / reference.rate)
    findings = []
    for _, own in rows.groupby(["side", "level"], sort=True):
        odds = special.logit(np.clip(own["predicted"].to_numpy(), SMALLEST, 1.0 - SMALLEST))
        low, high = (special.expit(odds + sign * reference.tolerance) for sign in (-1.0, 1.0))
        findings.append(tested("calibration", own, low, high, limit, f"predicted {own['predicted'].mean():.4f}"))
    return findings
