"""Sequential test of the response rate against that of the training rows."""

import math

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.watch.evidence import SMALLEST
from shadowprice.watch.finding import Finding
from shadowprice.watch.reference import Reference
from shadowprice.watch.sequential import tested, untested


def label_drift(rows: pd.DataFrame, reference: Reference) -> list[Finding]:
    """Test the response rate of explored requests by side and level against the rate in training.

    The accounts of an explored level are not selected by the model, so their rate does not depend on the policy. The
    rate of training is an exact interval (Clopper and Pearson), widened by ``reference.tolerance``. Interval and test
    take half of ``reference.rate`` each, so false alarms of all groups at any time stay at most at that rate.

    Args:
        rows: table of :func:`shadowprice.watch.rows.watched_rows`.
        reference: ``labels`` of training; groups without labels, or with a mean response above 1, are not tested.
    """
    share = reference.rate / (2 * reference.groups)
    findings = []
    for _, own in rows[rows["explored"]].groupby(["side", "level"], sort=True):
        side, level = str(own["side"].iloc[0]), int(own["level"].iloc[0])
        if (side, level) not in reference.labels:
            continue
        trained, mean = reference.labels[side, level]
        if mean > 1.0:
            # The interval and the test are those of a rate, and a merchant's response may be above 1.
            reason = f"the mean response in training, {mean:.4f}, is above 1"
            findings.append(untested("label_drift", own, -math.log(share), reason))
            continue
        responses = mean * trained
        low = special.betaincinv(responses, trained - responses + 1, share / 2) if responses > 0 else 0.0
        high = special.betainccinv(responses + 1, trained - responses, share / 2) if responses < trained else 1.0
        bounds = special.logit(np.clip([low, high], SMALLEST, 1.0 - SMALLEST))
        low, high = special.expit(bounds + np.array([-1.0, 1.0]) * reference.tolerance)
        findings.append(tested("label_drift", own, low, high, -math.log(share), f"in training {mean:.4f}"))
    return findings
