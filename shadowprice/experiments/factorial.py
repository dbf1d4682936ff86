"""Joint test of customers' and merchants' incentives: two factors, each on or off, and their interaction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import as_rows
from shadowprice.experiments.effects import Cells, Contrast, Effect

SIGNS = {
    "customers": (-0.5, -0.5, 0.5, 0.5),
    "merchants": (-0.5, 0.5, -0.5, 0.5),
    "interaction": (1.0, -1.0, -1.0, 1.0),
}
"""Coefficients of the cells m_00, m_01, m_10 and m_11."""


@dataclass(frozen=True)
class Factorial:
    """Effects of a 2 × 2 trial, per request.

    customers    effect of the customers' incentive, the mean of that with and without the merchants'
    merchants    effect of the merchants' incentive, likewise
    interaction  effect of the customers' incentive with the merchants' less that without: above 0 they help each other
    means        (2, 2) mean of each cell; first the customers' arm, then the merchants'
    p_value      of the joint hypothesis that all three effects are 0
    """

    customers: Effect
    merchants: Effect
    interaction: Effect
    means: tuple[tuple[float, float], tuple[float, float]]
    p_value: float


def factorial(
    y: ArrayLike,
    customer_on: ArrayLike,
    merchant_on: ArrayLike,
    customer: ArrayLike,
    merchant: ArrayLike,
    *,
    level: float = 0.95,
) -> Factorial:
    """Estimate both sides' effects and their interaction from requests that name both ends.

    With cell means m_ab, a of the customer and b of the merchant:

        customers = ((m_11 − m_01) + (m_10 − m_00)) / 2,   interaction = m_11 − m_10 − m_01 + m_00

    Rows of one customer and rows of one merchant may depend on each other (two-way clusters). The joint test is Wald's,
    with the F distribution of 3 and the fewest degrees of freedom of the three. Where incentives spill
    over to neighbors, assign groups of the graph and give their names as ``customer`` and ``merchant``.

    Args:
        y: (N,) outcomes.
        customer_on, merchant_on: bool (N,), whether each end's arm has the incentive; two independent assignments, so
            two experiments of different salts.
        customer, merchant: (N,) what was assigned at each end.
        level: of the intervals.

    Raises:
        InvalidInput: a cell without rows, or arrays of different lengths.

    Source: Cameron, Gelbach and Miller (2011) for the clusters. O(N log N).

    Example:
        >>> found = factorial([0, 1, 2, 5] * 2, [0, 1, 0, 1] * 2, [0, 0, 1, 1] * 2, list("abcdefgh"), list("stuvwxyz"))
        >>> found.customers.value, found.merchants.value, found.interaction.value
        (2.0, 3.0, 2.0)
    """
    rows = as_rows({"y": y})["y"]
    a, b = (np.asarray(on, dtype=np.bool_) for on in (customer_on, merchant_on))
    if a.shape != rows.shape or b.shape != rows.shape:
        raise InvalidInput(f"must have one entry per row, {rows.size}", field="customer_on, merchant_on")
    cell = 2 * a.astype(np.intp) + b
    for empty in np.flatnonzero(np.bincount(cell, minlength=4) == 0)[:1].tolist():
        raise InvalidInput(f"has no row with customer_on {empty // 2} and merchant_on {empty % 2}", field="y")
    cells = Cells.of(cell, customer, merchant, level=level)
    contrasts = {name: cells.contrast(rows, signs) for name, signs in SIGNS.items()}
    means = [cells.contrast(rows, one).value for one in np.eye(4)]
    return Factorial(
        **{name: cells.effect(contrast) for name, contrast in contrasts.items()},
        means=((means[0], means[1]), (means[2], means[3])),
        p_value=_joint(cells, list(contrasts.values())),
    )


def _joint(cells: Cells, contrasts: list[Contrast]) -> float:
    """p-value of Wald's test that all contrasts are 0; NaN where a cell has a single cluster."""
    degrees = min(cells.degrees(contrast) for contrast in contrasts)
    if not degrees > 0:
        return float("nan")
    parts = cells.variances(contrasts)
    covariance = parts[0] if len(parts) == 1 else parts[0] + parts[1] - parts[2]
    if len(parts) > 1 and np.linalg.eigvalsh(covariance).min() <= 0:
        # Without the pairs the covariance is too large, and never without a direction.
        covariance = parts[0] + parts[1]
    value = np.array([contrast.value for contrast in contrasts])
    wald = float(value @ np.linalg.pinv(covariance) @ value)
    return float(special.fdtrc(len(contrasts), degrees, max(wald, 0.0) / len(contrasts)))
