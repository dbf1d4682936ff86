"""Effect of a policy for everybody where the arm of an account's partners moves its response too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.experiments.effects import Effect

TERMS = 4
"""Coefficients of the linear model."""


@dataclass(frozen=True, eq=False)
class Exposed:
    """Estimate of an effect for everybody.

    value      of the estimate
    influence  (N,), of each account on it; 0 for an account that was left out
    """

    value: float
    influence: Array


EVERYBODY, PARTNERS = (0.0, 1.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0)
"""Weights of the coefficients: of all accounts in the arm, and of all partners of an account that is in it itself."""


def exposed(
    y: ArrayLike,
    treated: ArrayLike,
    exposure: ArrayLike,
    kept: NDArray[np.bool_] | None = None,
    effect: tuple[float, ...] = EVERYBODY,
) -> Exposed:
    """Estimate the mean of ``y`` if all accounts were in the arm, less the mean if none were.

    The mapping of exposure says that an account is moved by its own arm and by the share of its partners in the arm:
    y = a + b·own + c·share + d·own·share + error, so the effect is b + c + d, by least squares. The estimate is right
    where the mapping is: a share of partners that moves ``y`` in another way than by a line biases it.

    Args:
        y: (N,), value or cost of each account.
        treated: bool (N,), whether the account is in the arm.
        exposure: (N,) in [0, 1], share of its partners in the arm; 0 for an account without partners.
        kept: bool (N,), accounts of the two arms that are compared; None: all.
        effect: weights of (a, b, c, d): :data:`EVERYBODY`, or :data:`PARTNERS` for c + d alone.

    Raises:
        InvalidInput: an arm without rows, too few accounts, an exposure outside [0, 1], or exposures that follow from
            the own arm, so that the two effects cannot be separated.

    O(N).

    Source: Aronow and Samii (2017), exposure mappings; Gui, Xu, Bhasin and Han (2015), the linear model.
    """
    rows = as_rows({"y": y, "treated": np.asarray(treated, dtype=np.float64), "exposure": exposure})
    use = np.ones(rows["y"].size, dtype=np.bool_) if kept is None else kept
    values, own, share = (rows[name][use] for name in ("y", "treated", "exposure"))
    require(own.any() and not own.all(), "treated", "needs rows of both arms")
    if own.size <= TERMS:
        raise InvalidInput(f"has {own.size} accounts; at least {TERMS + 1} are needed", field="y")
    InvalidInput.refuse_rows(~((share >= 0) & (share <= 1)), "must be a share of partners in [0, 1]", field="exposure")
    design = np.stack([np.ones(own.size), own, share, own * share], axis=1)
    if np.linalg.matrix_rank(design) < TERMS:
        raise InvalidInput(
            "follows from the own arm; assign the partners by themselves, or compare whole groups with lift()",
            field="exposure",
        )
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ values
    leverage = np.einsum("np,pq,nq->n", design, inverse, design)
    residual = (values - design @ fitted) / np.sqrt(np.maximum(1.0 - leverage, 1e-9))
    influence = np.zeros(use.size)
    influence[use] = residual * (design @ inverse @ np.array(effect))
    return Exposed(float(fitted @ np.array(effect)), influence)


def effect_of_all(
    parts: Sequence[Exposed], unit: NDArray[np.intp], ties: NDArray[np.intp], level: float = 0.95
) -> Effect:
    """Effect for everybody, the sum of that of each period, with its interval.

    Accounts depend on each other where one draw moves both: a unit that both are in, or that has partners of both.
    With the influence ψ of each account and the number n_ij of units that i and j share, the variance is
    Σ_ij n_ij ψ_i ψ_j, of which each account counts once with itself. Two accounts that share several units count
    several times, and effects that differ between partners count as noise: the interval is wider than it must be.

    Args:
        parts: estimate of each period, of the same N accounts.
        unit: (N,), code of the unit of each account.
        ties: (2, E), account and unit of its partner.
        level: of the interval.

    Source: Aronow and Samii (2017), section 5; Leung (2020), dependence through a network. O((N + E) log(N + E)).

    Example:
        >>> own, share = np.tile([0, 0, 1, 1], 5), np.tile([0.0, 1.0, 0.0, 1.0], 5)
        >>> one = exposed(1.0 + own + 2 * share, own, share)
        >>> round(effect_of_all([one], np.arange(20), np.stack([np.arange(20), 20 + np.arange(20)])).value, 6)
        3.0
    """
    value, influence = sum(effect.value for effect in parts), np.sum([effect.influence for effect in parts], axis=0)
    account, drawn = np.concatenate([np.stack([np.arange(unit.size), unit]), ties], axis=1)
    most = int(drawn.max()) + 1
    account, drawn = np.divmod(np.unique((account * most + drawn)[influence[account] != 0]), most)
    sums = np.bincount(drawn, influence[account])
    square = influence**2
    variance = max(float(sums @ sums - square[account].sum() + square.sum()), float(square.sum()))
    # Few partners, or one that most accounts have, move the line itself.
    part = np.bincount(ties[1][influence[ties[0]] != 0])
    partners = part.sum() ** 2 / float(part @ part) if part.size else 0.0
    degrees = max(min(partners, float(np.count_nonzero(influence))) - TERMS, 1.0)
    variance *= (degrees + TERMS) / degrees
    error = float(np.sqrt(variance))
    half = float(special.stdtrit(degrees, (1 + level) / 2)) * error
    p_value = float(2 * special.stdtr(degrees, -abs(value) / error)) if error > 0 else float("nan")
    return Effect(value, error, value - half, value + half, level, degrees, p_value)


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
