"""Arms of the units of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.arms import Experiment
from shadowprice.evaluation.statistics.groups import codes


def assign(experiment: Experiment, units: ArrayLike) -> NDArray[np.str_]:
    """Return the arm of each row, (N,): the one that the predictor gives its unit.

    Args:
        experiment: arms, shares and salt.
        units: (N,) identifiers of the experiment's unit (accounts, partners or clusters), repeats allowed.

    Raises:
        InvalidInput: an identifier is missing.

    Each unit is hashed once: O(N log N), and a hash for each unit.

    Example:
        >>> from shadowprice.arms import Arm
        >>> arms = (Arm(name="holdout", kind="holdout", share=5000), Arm(name="policy", kind="policy", share=5000))
        >>> assign(Experiment(arms=arms, salt="spring"), ["a", "b", "a"]).tolist()
        ['holdout', 'holdout', 'holdout']
    """
    names = np.asarray(units).astype(str) if np.asarray(units).dtype != object else np.asarray(units)
    of, size = codes(names, field="units")
    first = np.empty(size, dtype=np.intp)
    first[of[::-1]] = np.arange(of.size - 1, -1, -1)
    return experiment.arm_of([str(unit) for unit in names[first].tolist()])[of]
