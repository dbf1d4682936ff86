"""Every registered metric: ``from shadowprice.evaluation import metrics``, then ``metrics.auc(y, p)``.

Each is a plain function ``metric(*arrays, weight=None, interval=None, **options)`` that gives a
float, or an :class:`~shadowprice.evaluation.intervals.Estimate` when an interval is asked for.
"""

from shadowprice.evaluation.calibration import ece
from shadowprice.evaluation.classification import auc, brier, logloss
from shadowprice.evaluation.monotonicity import epr, mlss, rpr
from shadowprice.evaluation.regression import mae, mse
from shadowprice.evaluation.slope import curve_slope

__all__ = ["auc", "brier", "curve_slope", "ece", "epr", "logloss", "mae", "mlss", "mse", "rpr"]
