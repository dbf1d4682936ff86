"""Value of a campaign as a function of its budget, from what its own solves answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput

Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueCurve:
    """Tangents of a concave value curve: no budget brings more than the least of them says.

    budget  (K,), ascending, each different
    value   (K,), optimum of the campaign's own linear program at each
    price   (K,), its price of money there, a slope of the curve; it does not rise

    Example:
        >>> curve = ValueCurve.of([0.0, 10.0], [0.0, 4.0], [1.0, 0.0])
        >>> [piece.tolist() for piece in curve.pieces(0.0, 10.0)]
        [[1.0, 0.0], [0.0, 4.0], [4.0, 10.0]]
    """

    budget: Real
    value: Real
    price: Real

    @classmethod
    def of(cls, budget: ArrayLike, value: ArrayLike, price: ArrayLike) -> ValueCurve:
        """Return the curve through points in any order.

        Raises:
            InvalidInput: no point, or one that is not finite.
        """
        points = np.array([budget, value, price], dtype=np.float64)
        if not points.size or not np.isfinite(points).all():
            raise InvalidInput("needs points with a finite budget, value and price", field="curve")
        _, first = np.unique(points[0], return_index=True)
        points = points[:, first]
        # Solves agree to their tolerance only: a slope that rises by that much is that of the point before.
        return cls(points[0], points[1], np.minimum.accumulate(points[2]))

    def with_point(self, budget: float, value: float, price: float) -> ValueCurve:
        """Return the curve with one more point; one at a known budget changes nothing."""
        added = zip((self.budget, self.value, self.price), (budget, value, price), strict=True)
        return ValueCurve.of(*(np.append(known, new) for known, new in added))

    def pieces(self, least: float, most: float) -> tuple[Real, Real, Real]:
        """Slopes (K,) of the upper bound between two budgets, and the budgets where each begins and ends. O(K)."""
        budget, value, price = self.budget, self.value, self.price
        drop = price[:-1] - price[1:]
        meet = value[1:] - price[1:] * budget[1:] - value[:-1] + price[:-1] * budget[:-1]
        cross = np.divide(meet, drop, where=drop > 0, out=budget[1:].copy())
        cross = np.clip(cross, budget[:-1], budget[1:])
        ends = np.clip(np.concatenate([[least], cross, [most]]), least, most)
        return price, ends[:-1], ends[1:]

    def bound(self, budget: float) -> float:
        """Most that a budget can bring."""
        return float(np.min(self.value + self.price * (budget - self.budget)))
