"""Meaning of the gate's rules, and the change that would mend each broken one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate

MEANINGS: Mapping[str, str] = {
    "finite": "A metric that cannot be computed leaves the model unjudged.",
    "auc": "The model must rank the accounts that respond before those that do not, better than a coin.",
    "ece": "Expected costs are wrong by the share that predicted and observed response differ by at each level.",
    "rpr": "A larger incentive must never be predicted to bring less; the price would be wrong.",
    "mse": "The model in use predicts these responses better.",
    "value": "The model must bring more for the campaign's budget than what it replaces, beyond chance.",
    "loss": "The margin of value is for models that may be as good as what they replace.",
    "prediction": "A model that is not shown to bring more must not predict the newest responses worse.",
    "effect": "The curves claim another effect of the incentive than the log shows where its reasons are held fixed.",
    "evidence": "A model of an effect that the trial does not show spends the budget on chance.",
    "slope": "Curves that are steeper or flatter than the trial price the money wrongly.",
    "risk": "The accounts with the highest and lowest predictions decide who gets the money.",
}
"""Rule → why it is asked."""
MENDS: Mapping[str, str] = {
    "finite": "Look for a side without responses or with a single level in the test split.",
    "auc": "More rows alone do not mend it: add features that were known before the decision, or name another recipe.",
    "ece": "Calibrate on past weeks (calibration rolling), or raise the gate's limit ece_share.",
    "rpr": "Repair the curves (curve_repair monotone), or name a recipe whose curves cannot fall.",
    "mse": "Train on the newest rows too (pipeline retrain), or with the recipe of the model in use.",
    "value": "More rows alone do not mend it: add features, name another recipe, or log more exploration.",
    "loss": "Keep the model in use, and log more exploration for the next one.",
    "prediction": "Train on more days (recent_days), weigh rows by known propensities, or log more exploration.",
    "effect": "Repair the curves of the effect (curve_repair effect), name missing confounders, or run a trial.",
    "not identified": "Log more rows with levels drawn at random, or leave out the offers of this side.",
    "wrong way": "Do not spend on this incentive: leave out the offers of this side, or try another one.",
    "slope": "Repair the curves (curve_repair by_level), weigh rows by known propensities, or name another recipe.",
    "risk": "Repair the curves (curve_repair pooled), add features, or name another recipe.",
}
"""Rule → change that mends it, where no number of rows does."""


@dataclass(frozen=True, kw_only=True)
class Override:
    """Decision of a person to use a model that the gate refuses.

    reason  why it may be used
    by      name of who takes the decision
    """

    reason: str
    by: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self | None:
        """Return the override in a JSON object; None of an empty one.

        >>> Override.of({"reason": "first week of a trial", "by": "Ada"})
        Override(reason='first week of a trial', by='Ada')

        Raises:
            InvalidInput: it has not exactly a ``reason`` and a ``by``, or one is empty.
        """
        if not given:
            return None
        texts = [given.get(name) for name in ("reason", "by")]
        if set(given) != {"reason", "by"} or not all(isinstance(text, str) and text.strip() for text in texts):
            raise InvalidInput('must be {"reason": "…", "by": "…"}, both with text', field="override")
        return cls(**given)

    def __str__(self) -> str:
        return f"taken all the same by {self.by}: {self.reason}"


def mend(rule: str, found: Estimate | float, target: float, rows: int | None = None) -> str:
    """Return how a lower bound that must exceed ``target`` gets there.

    The half-width of an interval falls with the square root of the rows. With the same value v and lower bound l the
    bound reaches the target t at (v − l)² / (v − t)² times the rows. Where v itself does not exceed t, no number of
    rows mends the rule.

    >>> mend("auc", Estimate(0.53, 0.49, 0.57), 0.5, rows=400)
    'About 712 test rows would show it, 1.8 times the present ones, if the value stays.'
    """
    times = rows_needed(found, target)
    if not math.isfinite(times):
        return MENDS[rule]
    count = "" if rows is None else f"{math.ceil(times * rows):,} test rows would show it, "
    advice = f"About {count}{times:.2g} times the present ones, if the value stays."
    return advice if count else f"About {times:.2g} times the present test rows would show it, if the value stays."


def rows_needed(found: Estimate | float, target: float) -> float:
    """Return the multiple of the rows at which the lower bound reaches a target; infinity where none does."""
    if not isinstance(found, Estimate) or not found.value > target or not math.isfinite(found.low):
        return math.inf
    return ((found.value - found.low) / (found.value - target)) ** 2
