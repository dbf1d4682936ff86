"""Requests of the generated data set ``world``: which merchant, what basket, by which channel, and their effect."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.datasets.world.graph import WorldGraph

CHANNELS = ("app", "web")
MERCHANT_EFFECT, BASKET_EFFECT, CHANNEL_EFFECT = 0.7, 0.6, 0.5
"""Effect of the merchant's traits on both of the customer's, of the basket on the first, the channel on the second."""
POINTS = 5
"""Points at which the basket is averaged over."""


@dataclass(frozen=True)
class RequestContext:
    """Context of n requests of customers.

    partner  (n,), node of the merchant; −1 for a customer without a tie
    basket   (n,), standard normal
    channel  (n,), index into :data:`CHANNELS`
    """

    partner: NDArray[np.intp]
    basket: NDArray[np.float64]
    channel: NDArray[np.intp]

    def moves(self, graph: WorldGraph, strength: NDArray[np.float64], effect: float) -> NDArray[np.float64]:
        """Trait strengths (n, 2) of the customers (n, 2) in these requests; ``effect`` is the weight of the context."""
        shift = MERCHANT_EFFECT * np.where((self.partner >= 0)[:, None], graph.traits[self.partner], 0.0)
        shift[:, 0] += BASKET_EFFECT * self.basket
        shift[:, 1] += CHANNEL_EFFECT * (1.0 - 2.0 * self.channel)
        return np.asarray((strength + effect * shift) / np.sqrt(1.0 + effect**2))


def draw_context(graph: WorldGraph, customer: NDArray[np.intp], random: np.random.Generator) -> RequestContext:
    """Draw the context of requests of customers (nodes, (n,)): one of the customer's own merchants, each as likely."""
    order = np.argsort(graph.tie[0], kind="stable")
    start = np.searchsorted(graph.tie[0][order], np.arange(len(graph.ids) + 1))
    ties = start[customer + 1] - start[customer]
    chosen = start[customer] + np.floor(random.random(customer.size) * ties).astype(np.intp)
    partner = np.where(ties > 0, graph.tie[1][order][np.minimum(chosen, order.size - 1)], -1)
    return RequestContext(
        partner, random.normal(size=customer.size), np.asarray(random.integers(0, 2, size=customer.size))
    )


def mean_response(
    graph: WorldGraph,
    strength: NDArray[np.float64],
    effect: float,
    respond: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the true response (J, N) of each customer, the mean over the requests it may make.

    The mean over the basket is a Gauss–Hermite sum. O(E·J) for E ties.

    Args:
        graph: with the customers.
        strength: (N, 2), trait strengths of all accounts.
        effect: weight of the context.
        respond: response (J, n) of trait strengths (n, 2).
    """
    lonely = np.setdiff1d(graph.customers, graph.tie[0])
    customer = np.concatenate([graph.tie[0], lonely])
    partner = np.concatenate([graph.tie[1], np.full(lonely.size, -1)])
    share = 1.0 / np.bincount(customer, minlength=len(graph.ids))[customer]
    point, weight = np.polynomial.hermite_e.hermegauss(POINTS)
    total: Any = 0.0
    for basket, mass in zip(point, weight / weight.sum(), strict=True):
        for channel in range(len(CHANNELS)):
            request = RequestContext(
                partner, np.full(customer.size, basket), np.full(customer.size, channel, dtype=np.intp)
            )
            response = respond(request.moves(graph, strength[customer], effect)) * share * mass / len(CHANNELS)
            total = total + np.stack([np.bincount(customer, chance, minlength=len(graph.ids)) for chance in response])
    return np.asarray(total[:, graph.customers])
