"""Marketing goals as training losses (S4), and the estimators of their gradients through a decision."""

from shadowprice.responses.goal.estimator import estimator_names, make_estimator

__all__ = ["estimator_names", "make_estimator"]
