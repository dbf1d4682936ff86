"""Worth of personalizing with the models of one recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.policy.judged import Stage
from shadowprice.evaluation.policy.worth import Worth, worth
from shadowprice.learning.training_set import TrainingSet
from shadowprice.learning.worth.judge import Terms, judge
from shadowprice.learning.worth.stages import earlier_stages
from shadowprice.responses.sided import SidedModel
from shadowprice.tables.database import Source

SHARES = tuple(float(share) for share in np.round(np.linspace(0.0, 2.0, 21), 2))
"""Budgets, as shares of the campaign's own."""
FITTED_ACCOUNTS = 100_000
"""Accounts of a side above which no further models are fitted: the test split has enough rows of its own."""


@dataclass(frozen=True, kw_only=True)
class FoundWorth:
    """Worth of a policy, or the reason why it cannot be estimated."""

    worth: Worth | None = None
    absent: str = ""


def find_worth(
    model: SidedModel,
    data: TrainingSet,
    terms: Terms,
    *,
    fit: Callable[[TrainingSet], SidedModel] | None = None,
    truth: Source | None = None,
    shares: Sequence[float] = SHARES,
) -> FoundWorth:
    """Estimate the worth of personalizing with models of one recipe.

    Args:
        model: the model to be served, which has not learned from the test split.
        data: its training set.
        terms: campaign and requests.
        fit: trains, calibrates and repairs a model of the same recipe on the training and validation splits. With it
            other accounts judge too: two further models are fitted on the first accounts of a sequence, and judged on
            those that follow. None where the test split is later than the others, or large enough by itself.
        truth: account_id, side, level, response, where known.
        shares: of the campaign's budget, ascending.
    """
    try:
        stages = [] if fit is None else [judge(fit(then), then, terms, shares, truth) for then in earlier_stages(data)]
        stages.append(judge(model, data, terms, shares, truth))
        return FoundWorth(
            worth=worth(stages, _asked(stages, data, terms.requests), shares, terms.campaign.budget.limit)
        )
    except (InvalidInput, NotCertified) as error:
        return FoundWorth(absent=f"what personalizing is worth cannot be estimated: {error}")


def _asked(stages: Sequence[Stage], data: TrainingSet, requests: Mapping[Side, float]) -> dict[Side, float]:
    """Requests that rules allow an incentive: the share of such rows in the last stage."""
    test = data.part("test")
    return {
        side: requests[side] * np.asarray(row.trial.level).size / len(test[side])
        for side, row in stages[-1].rows.items()
    }
