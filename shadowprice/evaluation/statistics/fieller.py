"""Fieller's interval of a ratio of two means."""

import math

from scipy import special

from shadowprice.evaluation.statistics.intervals import Estimate


def fieller(
    numerator: float,
    denominator: float,
    variances: tuple[float, float],
    covariance: float = 0.0,
    *,
    level: float = 0.95,
    degrees: float = math.inf,
) -> Estimate | None:
    """Interval of ``numerator / denominator``, whose estimates are jointly normal; None where it is not bounded.

    The interval holds each θ that the test of ``numerator − θ · denominator = 0`` does not reject. Its coverage holds
    also where the denominator is uncertain. It has no bounds where the interval of the denominator contains 0.

    Args:
        numerator, denominator: the two means.
        variances: of both estimates.
        covariance: of both estimates.
        level: of the interval.
        degrees: of freedom of the variances.

    Source: Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16. O(1).

    Example:
        >>> found = fieller(6.0, 2.0, (0.04, 0.01))
        >>> [round(each, 3) for each in (found.value, found.low, found.high)]
        [3.0, 2.673, 3.385]
        >>> fieller(6.0, 0.1, (0.04, 0.01)) is None
        True
    """
    square = float(special.stdtrit(degrees, (1 + level) / 2)) ** 2
    leading = denominator**2 - square * variances[1]
    if not leading > 0:
        return None
    middle = numerator * denominator - square * covariance
    constant = numerator**2 - square * variances[0]
    root = math.sqrt(max(middle**2 - leading * constant, 0.0))
    return Estimate(numerator / denominator, (middle - root) / leading, (middle + root) / leading, level)
