"""Effect of a policy for everybody where the arm of an account's partners moves its response too."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.regression.linear_model import OLS

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.effects import Effect


def effect_of_all(
    y: ArrayLike, treated: ArrayLike, exposure: ArrayLike, unit: ArrayLike, level: float = 0.95
) -> Effect:
    """Mean of ``y`` if all accounts were in the arm, less the mean if none were.

    The mapping of exposure says that an account is moved by its own arm and by the share of its partners in the arm:
    y = a + b·own + c·share + d·own·share + error, so the effect is b + c + d. Least squares; standard errors allow for
    dependent rows of one unit. The estimate is right where the mapping is: a share of partners that moves ``y`` in
    another way than by a line biases it.

    Args:
        y: (N,), value or cost.
        treated: bool (N,), whether the account is in the arm.
        exposure: (N,) in [0, 1], share of its partners in the arm; 0 for an account without partners.
        unit: (N,) identifier of what was assigned.
        level: of the interval.

    Raises:
        InvalidInput: an arm without rows, an exposure outside [0, 1], or exposures that follow from the own arm, so
            that the two effects cannot be separated.

    O(N).

    Source: Aronow and Samii (2017), exposure mappings; Gui, Xu, Bhasin and Han (2015), the linear model.

    Example:
        >>> own, share = np.tile([0, 0, 1, 1], 5), np.tile([0.0, 1.0, 0.0, 1.0], 5)
        >>> round(effect_of_all(1.0 + own + 2 * share, own, share, np.arange(20)).value, 6)
        3.0
    """
    own = np.asarray(treated, dtype=np.bool_).astype(np.float64)
    share, values = np.asarray(exposure, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not own.any() or own.all():
        raise InvalidInput("needs rows of both arms", field="treated")
    wrong = ~((share >= 0) & (share <= 1))
    InvalidInput.refuse_rows(wrong, "must be a share of partners in [0, 1]", field="exposure")
    design = np.stack([np.ones(own.size), own, share, own * share], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise InvalidInput(
            "follows from the own arm; assign the partners by themselves, or compare whole groups with lift()",
            field="exposure",
        )
    groups, count = codes(np.asarray(unit), field="unit")
    degrees = count - design.shape[1]
    if degrees < 1:
        raise InvalidInput(f"has {count} units; at least {design.shape[1] + 1} are needed", field="unit")
    fitted = OLS(values, design).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    contrast = np.array([0.0, 1.0, 1.0, 1.0])
    value, error = float(contrast @ fitted.params), float(np.sqrt(contrast @ fitted.cov_params() @ contrast))
    half = float(stats.t.ppf((1 + level) / 2, degrees)) * error
    return Effect(value, error, value - half, value + half, level, degrees)


def exposure_of(edge_index: NDArray[np.integer], treated: NDArray[np.bool_], end: int) -> NDArray[np.float64]:
    """Return the share of each account's partners that are treated, (N,); 0 without partners.

    Args:
        edge_index: (2, E), ends of the ties.
        treated: bool (N,), of all accounts.
        end: end of the ties at which the accounts are, 0 or 1.

    Example:
        >>> exposure_of(np.array([[0, 0], [1, 2]]), np.array([False, True, False]), 0).tolist()
        [0.5, 0.0, 0.0]
    """
    own, other = edge_index[end], edge_index[1 - end]
    ties = np.bincount(own, minlength=treated.size)
    met = np.bincount(own, treated[other].astype(np.float64), minlength=treated.size)
    return np.asarray(met / np.maximum(ties, 1))
