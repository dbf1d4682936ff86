"""``world``: a two-sided payment campaign drawn from a generator whose truth is known.

Customers pay at merchants; both have latent traits that their features show only through noise. The behaviour of an
account depends on its own traits and, with strength ρ, on those of its partners over two hops. The influence of a tie
is divided by the number of ties at both ends; with ``threshold`` it counts only where it is positive. Edges are drawn
independently of the traits, so at ρ = 0 the graph has no information.

Customers redeem when the incentive passes a hidden threshold whose hazard rate per cent is piecewise constant with
change points at 80 and 100 cents; traits act differently in each regime, so hazards are not proportional. With
``own_change_point`` every customer has a change point of their own instead, at 60 or at 120 cents, which follows from
the traits. A merchant's number of shares grows linearly with its commission. Incentives of the trial are randomized and
their propensities logged.

The population drifts where ``drift_days`` is set: customers want higher incentives every day, and all respond less.

With ``context`` a customer's response also depends on the request: on the merchant's traits, the basket (``x_basket``)
and the channel (``c_channel``). The truth of an account is then its mean over the requests that it may make.
"""

from shadowprice.datasets.world.generate import (
    WorldOptions,
    drifted_truth,
    generator,
    load,
    true_response,
)
from shadowprice.datasets.world.responses import (
    CHANGE_POINTS,
    CUSTOMER_LEVELS,
    MERCHANT_LEVELS,
    customer_response,
    drifted_response,
    merchant_response,
    own_change_point_response,
    spilled,
)
from shadowprice.datasets.world.trial import HOURLY_SHAPE, TRIAL_START

__all__ = [
    "CHANGE_POINTS",
    "CUSTOMER_LEVELS",
    "HOURLY_SHAPE",
    "MERCHANT_LEVELS",
    "TRIAL_START",
    "WorldOptions",
    "customer_response",
    "drifted_response",
    "drifted_truth",
    "generator",
    "load",
    "merchant_response",
    "own_change_point_response",
    "spilled",
    "true_response",
]
