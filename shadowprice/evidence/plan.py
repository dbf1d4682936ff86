"""The command that plans a trial which would identify an effect."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import numpy as np
from scipy import stats

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.evidence import SideEvidence

WORTH_FINDING = 0.25
"""Rise of the response from the lowest level to the highest, as a share of the lowest's, that a trial finds."""
POWER = 0.8
SPARE = 1.1
"""Accounts of the trial, in multiples of those that draw their level at random."""
MOST_RESPONSE = 0.99
"""Largest response that is believed of a probability."""


def worth_finding(found: SideEvidence) -> float:
    """Rise of the response that a trial should find: a quarter, or half of what the log leaves open if that is less.

    The log leaves open what the interval of the slope, or of a level's difference to the lowest one, reaches.
    """
    base = found.lowest.response.value
    rise = WORTH_FINDING * base if base > 0 else math.inf
    open_ = [each.difference.high for each in found.levels if each.difference is not None]
    if found.slope is not None:
        open_.append(found.slope.high * (found.levels[-1].incentive - found.levels[0].incentive))
    largest = max(open_, default=math.inf)
    rise = min(rise, largest / 2) if largest > 0 else rise
    return rise if math.isfinite(rise) and rise > 0 else 0.0


def plan_command(found: SideEvidence, campaign: Campaign, response: Array, workspace: Path | None) -> str:
    """Return the ``shadowprice plan`` command of a trial that finds :func:`worth_finding` with a power of 80 %.

    Each level gets n = (z_0.975 + z_power)²·(V_lowest + V_highest) / rise² accounts, so that the difference of the
    highest level to the lowest is found. The mean response of a level then has a 95 % interval of ±z_0.975·√(V / n).
    Empty where no response was ever seen.
    """
    rise = worth_finding(found)
    terms = campaign.terms(found.side)
    if not rise:
        return ""
    base = max(found.lowest.response.value, 0.0)
    # Offers without an order are believed to bring alike, and more than the control.
    place = np.asarray(terms.levels, dtype=np.float64) if terms.ordered else np.minimum(terms.levels, 1.0)
    believed = base + rise * (place - place[0]) / (place[-1] - place[0])
    probability = bool(np.isin(response, (0.0, 1.0)).all())
    if probability:
        believed = np.minimum(believed, MOST_RESPONSE)
    variance = believed * (1 - believed) if probability else np.full(believed.size, max(float(response.var()), 1e-12))
    z, power = float(stats.norm.ppf(0.975)), float(stats.norm.ppf(POWER))
    each = math.ceil((z + power) ** 2 * float(variance[0] + variance[-1]) / rise**2)
    width = z * math.sqrt(float(variance.max()) / each)
    money = float(terms.cost(believed[:, None])[:, 0].mean()) / Currency.of(campaign.currency).unit
    where = "WORKSPACE" if workspace is None else shlex.quote(str(workspace))
    command = [
        f"shadowprice plan {where}",
        f"--accounts {math.ceil(SPARE * each * believed.size) + 2}",
        f"--response {','.join(f'{each:.4g}' for each in believed)}",
        f"--money {np.format_float_positional(money, precision=4, fractional=False, trim='-')}",
        f"--curve {width:.3g}",
    ]
    if found.side != "customer":
        command.append(f"--side {found.side}")
    if not probability:
        command.append(f"--variance {variance[0]:.4g}")
    return " ".join(command)
