"""Requests of ``world`` with context, against averages over many draws."""

import numpy as np

from shadowprice.datasets import load
from shadowprice.datasets.world import WorldOptions, generator, true_response
from shadowprice.datasets.world.context import draw_context
from shadowprice.datasets.world.graph import draw_graph

SIZE = {"customers": 150, "merchants": 40, "both": 10}


def test_the_truth_of_a_customer_is_the_mean_over_its_requests() -> None:
    options = WorldOptions(context=1.0, **SIZE)
    graph, random = draw_graph(options, generator(0)), np.random.default_rng(1)
    strength = graph.influence(options.rho)[graph.customers]
    draws = []
    for _ in range(1500):
        context = draw_context(graph, graph.customers, random)
        draws.append(options.respond(context.moves(graph, strength, options.context)))
    found, deviation = np.mean(draws, axis=0), np.std(draws, axis=0)
    z = (found - true_response(options, graph)) / (deviation / np.sqrt(len(draws)))
    assert np.abs(z).max() < 5
    assert 0.8 < z.std() < 1.2


def test_requests_name_a_merchant_of_the_customers_own_and_nothing_else_of_the_world_changes() -> None:
    plain, told = load("world", seed=3, **SIZE).tables, load("world", seed=3, context=0.8, **SIZE).tables
    ties = set(zip(told.edge["src"], told.edge["dst"], strict=True))
    customers = told.exposure[told.exposure["side"] == "customer"]
    named = customers[customers["partner_id"].notna()]
    assert set(zip(named["account_id"], named["partner_id"], strict=True)) <= ties
    assert len(named) > 0.95 * len(customers)
    assert (
        told.exposure.loc[told.exposure["side"] == "merchant", ["partner_id", "x_basket", "c_channel"]].isna().all(None)
    )
    same = ["request_id", "account_id", "side", "offer_id", "decided_at", "propensity"]
    assert plain.exposure[same].equals(told.exposure[same])
    assert plain.edge.equals(told.edge)
    assert not plain.outcome["redeemed"].equals(told.outcome["redeemed"])
