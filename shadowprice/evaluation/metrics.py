"""Every registered metric: ``from shadowprice.evaluation import metrics``, then ``metrics.auc(y, p)``.

Each is a plain function ``metric(*arrays, weight=None, interval=None, **options)`` that gives a
float, or an :class:`~shadowprice.evaluation.statistics.intervals.Estimate` when an interval is asked for.
"""

from shadowprice.evaluation.policy.allocation_metrics import (
    budget_use,
    cost_error,
    cpmd,
    future_cost,
    future_response,
    objective_ratio,
    tapmd,
    tha,
    thc,
)
from shadowprice.evaluation.policy.frontier import eom
from shadowprice.evaluation.policy.off_policy import dr_value, effective_rows, ips_value
from shadowprice.evaluation.prediction.calibration import ece
from shadowprice.evaluation.prediction.classification import auc, brier, logloss, mae, mse, normalized_gini, relaimpr
from shadowprice.evaluation.prediction.monotonicity import epr, mlss, rpr
from shadowprice.evaluation.uplift.cost_curve import aucc
from shadowprice.evaluation.uplift.ranking import auuc, lift, qini, wau
from shadowprice.evaluation.uplift.slope import curve_slope

__all__ = [
    "auc",
    "aucc",
    "auuc",
    "brier",
    "budget_use",
    "cost_error",
    "cpmd",
    "curve_slope",
    "dr_value",
    "ece",
    "effective_rows",
    "eom",
    "epr",
    "future_cost",
    "future_response",
    "ips_value",
    "lift",
    "logloss",
    "mae",
    "mlss",
    "mse",
    "normalized_gini",
    "objective_ratio",
    "qini",
    "relaimpr",
    "rpr",
    "tapmd",
    "tha",
    "thc",
    "wau",
]
