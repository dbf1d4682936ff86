"""The reason why AUC is earned and payments are not: a factor per customer moves the one and not the other."""

import numpy as np
import pytest

from benchmarks.world.equal_cost import value_at_cost
from benchmarks.world.information import curves_by_information
from research.tables.s0.comparison import by_response
from research.tables.s0.information import FULL, MEANS, common_factor, expected_auc, of_world
from shadowprice.datasets.world import CUSTOMER_LEVELS, WorldOptions, customer_response, own_change_point_response

LEVELS = np.array(CUSTOMER_LEVELS)
STRENGTH = np.random.default_rng(0).normal(size=(2000, 2))
SMALL = {"customers": 600, "merchants": 150, "both": 15}


def test_a_factor_per_customer_moves_auc_and_no_payment() -> None:
    truth = customer_response(STRENGTH)
    blurred = truth * np.random.default_rng(1).uniform(0.2, 1.0, size=2000)
    payments = [value_at_cost([by_response(each, truth, LEVELS)], 30.0 * 2000) for each in (truth, blurred)]
    assert payments[1] == pytest.approx(payments[0], rel=1e-6)
    assert expected_auc(blurred, truth, 0) < expected_auc(truth, truth, 0) - 0.03


def test_the_common_factor_is_all_of_proportional_curves_and_less_where_customers_move_apart() -> None:
    factor = np.random.default_rng(2).uniform(0.2, 1.0, size=300)
    assert common_factor(np.linspace(0.1, 0.9, 8)[:, None] * factor) == pytest.approx(100.0)
    alike, apart = (common_factor(respond(STRENGTH)) for respond in (customer_response, own_change_point_response))
    assert apart < alike - 10


def test_a_row_holds_the_payments_of_the_best_curves() -> None:
    options = WorldOptions(**SMALL, own_change_point=True)
    row = of_world(options, 3, 45.0)
    graph, curves = curves_by_information(options, 3)
    truth = options.respond(graph.influence(options.rho)[graph.customers])
    bought = {name: value_at_cost([by_response(curves[name], truth, LEVELS)], 45.0 * 600) for name in (MEANS, FULL)}
    assert row["two hops over partners' means, payments %"] == pytest.approx(100 * (bought[FULL] / bought[MEANS] - 1))
    assert row["true traits over the best flat mixture, payments %"] > 5
