"""Finding of one check on one group of requests."""

from dataclasses import dataclass

ALL_LEVELS, ALL_SIDES = -1, "all"
BY_LEVEL = ("calibration", "label_drift", "stability")
BY_SIDE = ("curve_shape", "feature_drift")
"""Names of the checks; the services read them here, without the libraries that the checks need."""
SAMPLE_RATIO = "sample_ratio"
"""Check of an experiment's arms, and not of the model."""


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    check      name of the check, of :data:`BY_LEVEL` or :data:`BY_SIDE`, or :data:`SAMPLE_RATIO`
    side       side of the market, or :data:`ALL_SIDES`
    level      index of the incentive level, or :data:`ALL_LEVELS`
    statistic  compared with ``limit``: an alarm is a statistic at the limit or above
    limit      of the statistic
    alarm      verdict
    rows       requests that were judged
    day        first day of the alarm, UTC days since the first decision; -1: none, or not known
    sentence   the verdict in words
    """

    check: str
    side: str
    level: int
    statistic: float
    limit: float
    alarm: bool
    rows: int
    day: int
    sentence: str
