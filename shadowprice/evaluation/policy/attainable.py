"""Share of the gain that personal incentives can add over the best policy that treats all accounts of a side alike.

The share of the optimum is a weak measure: most of a campaign's value comes with any incentive. Between the best flat
policy and the optimum lies all that a model of accounts can add.
"""

from dataclasses import dataclass

LEAST_GAIN = 1e-3
"""Gain, as a share of the optimum, below which no share of it is stated: hardly anything depends on the decisions."""


@dataclass(frozen=True, kw_only=True)
class Attainable:
    """True mean values between which a policy of one day is judged.

    lowest  every request gets the lowest level of its side, whatever that costs
    flat    best mixture of levels, the same for all accounts of a side, within the budget; NaN where the lowest
            levels already cost more than the budget
    best    best policy with the true curves, within the budget
    """

    lowest: float
    flat: float
    best: float

    def incremental(self, value: float) -> float:
        """Value above that of the lowest level for every request."""
        return value - self.lowest

    def share(self, value: float) -> float:
        """Share of the attainable gain: (value − flat) / (best − flat).

        1 is the optimum, 0 the best flat policy, below 0 worse than flat. NaN where hardly anything can be gained
        (:data:`LEAST_GAIN`).

        >>> Attainable(lowest=50.0, flat=90.0, best=100.0).share(96.0)
        0.6
        """
        gain = self.best - self.flat
        return (value - self.flat) / gain if gain > LEAST_GAIN * abs(self.best) else float("nan")
