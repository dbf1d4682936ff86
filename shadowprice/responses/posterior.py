"""Posterior of a side's curves: how far they may be wrong together, from rows that their model was not fitted on.

    truth_j = f_j + Σ_p δ_p·φ_p(f)_j,   δ ~ N(mean, covariance)

A last layer over the model's own curves, whatever the model is. φ are 1, the mean curve around its mean over the
levels, the height of the account's curve above the mean curve, and the rest of it, which is the account's own effect.
δ = 0 trusts the model. The law is the Gaussian posterior of a regression of the rows' residuals on φ at their level,
with a covariance that holds whatever the errors of an account's rows are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.curves import Curves
from shadowprice.documents import Plain
from shadowprice.responses.base import at_level

Array = NDArray[np.float64]

TERMS = 4
PRIOR = 1.0
"""Standard deviation of each δ before any row; of the first, in standard deviations of the response."""
LEAST = np.array([-np.inf, -1.0, -1.0, -1.0])
"""Below −1 an effect would change its sign, and curves that rise would fall."""


@dataclass(frozen=True, eq=False)
class CurvePosterior(Plain):
    """Normal law of δ for one side.

    mean         (4,)
    covariance   (4, 4)
    probability  whether the response is one, which ends at 1

    Example:
        >>> curves = Curves(np.array([0, 100]), np.array([[0.1, 0.2], [0.3, 0.6]]))
        >>> sure = CurvePosterior(np.zeros(4), np.zeros((4, 4)))
        >>> sure.move(curves, np.array([0.0, 0.0, 0.0, -1.0])).response.round(2).tolist()
        [[0.05, 0.25], [0.35, 0.55]]
    """

    mean: Array
    covariance: Array
    probability: bool = True

    @classmethod
    def fit(
        cls,
        curves: Curves,
        level: ArrayLike,
        y: ArrayLike,
        account: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        probability: bool = True,
    ) -> Self:
        """Fit on n labeled rows that the model was not fitted on.

        Args:
            curves: the model's, of the rows.
            level: (n,) index of the level given; y: (n,) response.
            account: (n,) names each row's account, whose rows share an error.
            weight: (n,), such as 1 / propensity; ones when None.
            probability: whether the response is 0 or 1.

        O(n·J). Source: Bayesian linear regression; covariance of clusters: Liang and Zeger (1986), with the prior as
        one more cluster, so that few rows leave about the prior's.
        """
        index, observed = np.asarray(level, dtype=np.int64), np.asarray(y, dtype=np.float64)
        w = np.ones(index.size) if weight is None else np.asarray(weight, dtype=np.float64)
        terms = basis(curves)[:, index, np.arange(index.size)]
        residual = observed - at_level(curves, index)
        variance = max(float(np.average(residual**2, weights=w)), 1e-12)
        spread = np.full(TERMS, PRIOR)
        spread[0] *= max(float(observed.std()), 1e-6)
        prior = np.diag(spread**-2)
        inverse = np.linalg.inv((terms * (w / variance)) @ terms.T + prior)
        mean = inverse @ (terms @ (w * residual / variance))
        score = w * (residual - mean @ terms) / variance
        of = np.unique(np.asarray(account), return_inverse=True)[1]
        scores = np.stack([np.bincount(of, term * score) for term in terms])
        return cls(mean, inverse @ (scores @ scores.T + prior) @ inverse, probability)

    def move(self, curves: Curves, delta: Array) -> Curves:
        """Return the curves at one δ (4,), kept within the range of a response. O(N·J)."""
        moved = curves.response + np.tensordot(np.maximum(delta, LEAST), basis(curves), axes=1)
        response = np.clip(moved, 0.0, 1.0 if self.probability else np.inf).astype(np.float32)
        return replace(curves, response=response, path=None)

    def axes(self) -> Iterator[Array]:
        """Yield the principal axes (4,) of the law, each one standard deviation long."""
        lengths, directions = np.linalg.eigh(self.covariance)
        for length, direction in zip(lengths, directions.T, strict=True):
            if length > 0:
                yield np.sqrt(length) * direction


def basis(curves: Curves) -> Array:
    """φ (4, J, N) of some curves; the mean curve counts each account by its requests."""
    response = curves.response.astype(np.float64)
    center = response @ curves.shares()
    own = response - center[:, None]
    height = own.mean(axis=0)
    found = np.empty((TERMS, *response.shape))
    found[0], found[1], found[2], found[3] = 1.0, (center - center.mean())[:, None], height, own - height
    return found
