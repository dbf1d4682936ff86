"""Plain baselines of a model of sessions: trees that rank, one voucher for all, and the best voucher for each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import MissingExtra
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.frontier import LoggedPolicies
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, bootstrap, estimates, gathered
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.learning.comparison.trials import trials_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.registry import make

SIDE: Side = "customer"
REPLICATIONS = 400
"""Samples of people that an interval is drawn from."""


@dataclass(frozen=True)
class Baselines:
    """Baselines on held-out sessions, with 95 % intervals.

    one_voucher  value of all requests where everybody gets the same voucher, the best one, until the budget is spent
    greedy       value where each person gets the voucher of their largest response, until the budget is spent
    auc, brier   of trees that read profile and voucher; None where lightgbm is not installed
    auc_gain     AUC of the model less that of the trees
    """

    one_voucher: Estimate
    greedy: Estimate
    auc: Estimate | None = None
    brier: Estimate | None = None
    auc_gain: Estimate | None = None

    @property
    def metrics(self) -> Mapping[str, Estimate]:
        """Metrics of the trees, by the names of a side's metrics."""
        return {} if self.auc is None or self.brier is None else {"auc": self.auc, "mse": self.brier}


def baselines(curves: Curves, data: TrainingSet, campaign: Campaign, requests: float) -> Baselines:
    """Compute the baselines; the effect of a voucher is estimated doubly robust, as for the model's own policy.

    Args:
        curves: (J, N) of the model on the test sessions.
        data: training set of sessions.
        campaign: whose total budget all spend.
        requests: expected in its window.

    The bootstrap draws people.
    """
    test = data.part("test")[SIDE]
    trials = trials_of(data, campaign, {SIDE: curves}, {})
    assert not isinstance(trials, str), "sessions have the shares of their vouchers"
    levels, rows = curves.response.shape
    account = test["account_id"].to_numpy(dtype=str)
    interval = Interval(replications=REPLICATIONS, cluster=account)
    cells, drawn = gathered(rows, interval)
    chosen = [np.full(rows, level) for level in range(levels)] + [curves.response.argmax(axis=0)]
    policies = LoggedPolicies(trials[SIDE], iter(chosen), levels, "dr", cells)

    def values(weight: Array) -> Array:
        """Value (B, 2) of the best voucher for all, chosen anew in each sample, and of the greedy choice."""
        value, cost = policies.at(weight)
        lasts = np.minimum(1.0, campaign.budget.limit / np.maximum(requests * cost, 1e-9))
        worth = requests * lasts * value
        return np.stack([np.nanmax(worth[:, :-1], axis=1), worth[:, -1]], axis=1)

    one, greedy = estimates(values, cells.size, drawn)
    try:
        # The numbers of vouchers: their discounts would not tell those of one discount apart.
        trees = make("gbdt", levels=range(levels), level="free").fit(_read(data.part("train")[SIDE]))
        theirs = at_level(trees.curve(_read(test)), labels(test)[0])
    except MissingExtra:
        return Baselines(one, greedy)
    level, y = labels(test)
    own = metrics.auc.statistic(y, at_level(curves, level))
    other = metrics.auc.statistic(y, theirs)
    gain = bootstrap(lambda weight: own(weight) - other(weight), np.ones(rows), interval)
    auc, brier = (metric(y, theirs, interval=interval) for metric in (metrics.auc, metrics.mse))
    return Baselines(one, greedy, auc, brier, gain)


def _read(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns that trees read."""
    own = [name for name in map(str, rows) if name.startswith(("x_", "c_"))]
    return rows[["account_id", "level", "response", *own]]
