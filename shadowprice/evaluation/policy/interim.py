"""Two policies at one price of money, compared by interim analyses that may stop at any time.

Equal spend would be found from the same rows that estimate the values, and no known interval of that difference holds
at all times together. At a price λ that was fixed before, the value net of money v − λ·c of a policy is a plain mean,
whose difference has a confidence sequence (:mod:`~shadowprice.evaluation.policy.confidence_sequence`). At the price of
the budget both comparisons agree: saved money is worth the value that it would have bought.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence, confidence_sequence
from shadowprice.evaluation.policy.frontier import RandomizedRows, check_curves
from shadowprice.evaluation.policy.off_policy import importance
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.policy import Choices


@dataclass(frozen=True, eq=False)
class EqualPrice:
    """Two policies at one price of money.

    price           of a minor unit
    candidate, incumbent   value net of money per account (inverse propensity scores)
    sequence        candidate − incumbent after each account, with intervals that hold at all of them at once
    effective_rows  the fewer of what both policies' weights are worth
    """

    price: float
    candidate: float
    incumbent: float
    sequence: ConfidenceSequence
    effective_rows: float

    @property
    def difference(self) -> Estimate:
        """Candidate − incumbent by now."""
        return self.sequence.last


def at_equal_price(
    trial: RandomizedRows,
    candidate: tuple[ArrayLike, ArrayLike],
    incumbent: tuple[ArrayLike, ArrayLike],
    *,
    price: float,
    largest_value: float,
    largest_cost: float,
    least_propensity: float,
    level: float = 0.95,
) -> EqualPrice:
    """Compare two policies by their value net of money, in the order of the rows.

    Args:
        trial: rows that neither was fitted on, in the order in which they were decided; its outcome model is not read.
        candidate, incumbent: (value (J, N), cost (J, N)) of the curves that each decides by. Both must be fixed before
            the rows are seen: another model is another comparison, from its own first row.
        price: of a minor unit, fixed before the rows are seen.
        largest_value, largest_cost: bounds of the value and cost of a row, both at least 0, known beforehand.
        least_propensity: bound on the propensities, such as ε / J where a share ε of requests explores J levels.
        level: probability of covering the truth at all interim analyses together.

    An account counts once, by the mean of its rows and where its last one stands: leave out accounts that are still
    being asked. The bounds make the interval wide where propensities are small; it takes more rows than
    :func:`~shadowprice.evaluation.policy.joint.at_budget`, and allows any number of interim analyses.

    Raises:
        InvalidInput: a value, cost or propensity outside its bounds, with its rows.

    O(N · J).
    """
    logged = as_rows({name: getattr(trial, name) for name in ("value", "cost", "propensity")})
    for name, largest in (("value", largest_value), ("cost", largest_cost)):
        require(np.isfinite(largest) and largest >= 0, f"largest_{name}", "must be finite and not negative")
        wrong = (logged[name] < 0) | (logged[name] > largest)
        InvalidInput.refuse_rows(wrong, f"must lie between 0 and {largest:g}", field=f"trial.{name}")
    require(np.isfinite(price) and price >= 0, "price", "must be finite and not negative")
    require(0 < least_propensity <= 1, "least_propensity", "must be a probability above 0")
    below = logged["propensity"] < least_propensity * (1 - 1e-9)
    InvalidInput.refuse_rows(below, f"lies below least_propensity {least_propensity:g}", field="trial.propensity")
    rows = logged["value"].size
    weights = [_weights(trial, *curves, price, logged["propensity"]) for curves in (candidate, incumbent)]
    net = logged["value"] - price * logged["cost"]
    bound = max(largest_value, price * largest_cost, np.finfo(float).tiny) / (least_propensity * (1 - 1e-9))
    account = np.arange(rows) if trial.account is None else np.asarray(trial.account)
    of = np.unique(account, return_inverse=True)[1]
    last = np.zeros(int(of.max()) + 1, dtype=np.intp)
    last[of] = np.arange(rows)
    share = np.bincount(of)
    one, two = (np.bincount(of, w * net) / share for w in weights)
    order = np.argsort(last)
    sequence = confidence_sequence((one - two)[order], -bound, bound, level=level)
    effective = min(float(w.sum() ** 2 / (w**2).sum()) if w.any() else 0.0 for w in weights)
    return EqualPrice(price, float(one.mean()), float(two.mean()), sequence, effective)


def _weights(trial: RandomizedRows, value: ArrayLike, cost: ArrayLike, price: float, propensity: Array) -> Array:
    """(N,): 1 / propensity where the policy gives the level that was given, else 0."""
    worth, paid = check_curves(value, cost, propensity.size)
    logged = check_index(trial.level, len(worth))
    # A row keeps its number however many come after it, and with it what a tie is decided by.
    chosen = Choices(worth, paid).decide([price], 0.5, np.arange(propensity.size)).level
    return np.where(chosen == logged, importance(np.ones(propensity.size), propensity), 0.0)
