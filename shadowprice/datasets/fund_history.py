"""Payments and actions of users before a simulated delivery of funds."""

from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from shadowprice.tables.schema import ACTIONS

DAYS_BEFORE = 60
MOST_ACTIONS = 12


def payments(users: int, merchants: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """User and merchant of each payment: a user pays at merchants whose tier is near their own."""
    count = 2 + random.poisson(4, users)
    user = np.repeat(np.arange(users), count)
    standing = random.normal(size=users)[user] + 0.5 * random.normal(size=user.size)
    rank = ndtr(standing / np.sqrt(1.25))
    return user, np.asarray(np.minimum((rank * merchants).astype(np.int64), merchants - 1))


def actions_before(
    starts: datetime, ids: NDArray[np.str_], interest: NDArray[np.float64], random: np.random.Generator
) -> pd.DataFrame:
    """Events before the trial, on funds by the exponential of twice the interest."""
    count = np.minimum(random.poisson(random.gamma(3.0, 2.0, ids.size)), MOST_ACTIONS)
    user = np.repeat(np.arange(ids.size), count)
    share = np.exp(interest)
    cumulative = np.cumsum(share / share.sum(axis=0), axis=0)
    fund = (random.random(user.size) > cumulative[:, user]).sum(axis=0).clip(max=len(interest) - 1)
    kind = random.choice(len(ACTIONS), user.size, p=[0.6, 0.2, 0.1, 0.1])
    return pd.DataFrame(
        {
            "account_id": ids[user],
            "offer_id": [f"fund-{number}" for number in fund],
            "action": np.array(ACTIONS)[kind],
            "ts": times_before(starts, random.random(user.size)),
        }
    )


def times_before(starts: datetime, share: NDArray[np.float64]) -> pd.DatetimeIndex:
    """Times within the days before the trial."""
    seconds = (share * DAYS_BEFORE * 86_400).round() + 3600
    return pd.Timestamp(starts) - pd.to_timedelta(seconds, unit="s")
