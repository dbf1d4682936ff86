"""Value of the context of a request: decided live, from the stored vector, and without it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.world.equal_cost import Choices, attainable, value_at_cost
from benchmarks.world.training_set import training_set
from research.table import Primary, Rows, Summary, Table
from research.trained import config, trained
from shadowprice.datasets.world import CUSTOMER_LEVELS, WorldOptions, generator
from shadowprice.datasets.world.context import CHANNELS, RequestContext, draw_context
from shadowprice.datasets.world.graph import WorldGraph, draw_graph
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel

LIVE, STORED = "the request's merchant and context", "the account's last request, stored"
WITHOUT_PARTNER, BLIND = "the request's context, merchant unknown", "trained without requests"
SHARE, OPTIMUM, VALUE = "share of the attainable gain, %", "share of the optimum, %", "value of 1,000 requests"
RECIPE, EFFECT, CENTS = "joint_gnn", 1.0, 24.0
REQUESTS = 30_000
QUICK: dict[str, Any] = {"customers": 800, "merchants": 200, "both": 20}


def run(seed: int, quick: bool) -> Rows:
    options = {"context": EFFECT, **(QUICK if quick else {})}
    _, data = training_set("world", seed, **options)
    world = WorldOptions(**options)
    graph = draw_graph(world, generator(seed))
    model = learned(data, seed, quick)
    blind = learned(replace(data, rows=without_requests(data), context=dict.fromkeys(data.rows, ())), seed, quick)
    random = np.random.default_rng([seed, 0xDA])
    customer = random.choice(graph.customers, REQUESTS // 10 if quick else REQUESTS)
    context = draw_context(graph, customer, random)
    truth = world.respond(context.moves(graph, graph.influence(world.rho)[customer], world.context))
    now = requests(graph, customer, context)
    frames = {
        LIVE: (model, now),
        STORED: (model, last_requests(data).loc[now["account_id"]].reset_index()),
        WITHOUT_PARTNER: (model, now.assign(partner_id=None)),
        BLIND: (blind, now[["account_id"]]),
    }
    cost = np.array(CUSTOMER_LEVELS)[:, None] * truth
    budget = CENTS * customer.size
    judged = attainable([Choices(truth, cost, truth, cost)], budget)
    rows: dict[str, dict[str, float]] = {}
    for name, (each, frame) in frames.items():
        believed = each.curves(data.inputs, {"customer": frame})["customer"].response.astype(np.float64)
        choices = Choices(believed, np.array(CUSTOMER_LEVELS)[:, None] * believed, truth, cost)
        value = value_at_cost([choices], budget)
        rows[name] = {
            SHARE: 100 * judged.share(value),
            OPTIMUM: 100 * value / judged.best,
            VALUE: 1000 * value / customer.size,
        }
    return rows


def learned(data: TrainingSet, seed: int, quick: bool) -> SidedModel:
    return trained(data, RECIPE, config(seed, quick), calibrated=True)


def without_requests(data: TrainingSet) -> dict[Any, pd.DataFrame]:
    """Return the rows of a training set as if requests named neither merchant nor context."""
    return {side: rows.assign(partner_id=None) for side, rows in data.rows.items()}


def last_requests(data: TrainingSet) -> pd.DataFrame:
    """Return the merchant and context of each customer's last trial request, by account: what the store keeps."""
    rows = data.rows["customer"].sort_values("snapshot_at", kind="stable").drop_duplicates("account_id", keep="last")
    return rows.set_index("account_id")[["partner_id", *data.context["customer"]]]


def requests(graph: WorldGraph, customer: Any, context: RequestContext) -> pd.DataFrame:
    """Return the requests as the service gets them."""
    named = graph.ids[context.partner].astype(object)
    named[context.partner < 0] = None
    channel = np.array(CHANNELS, dtype=object)[context.channel]
    columns = {"account_id": graph.ids[customer], "partner_id": named, "x_basket": context.basket}
    return pd.DataFrame(columns | {"c_channel": channel})


def reading(found: Summary) -> str:
    return (
        f"The merchant: {found.finding(SHARE, LIVE, WITHOUT_PARTNER)}. A stored vector of another request is "
        f"compared with no knowledge of requests: {found.finding(SHARE, STORED, BLIND)}."
    )


TABLE = Table(
    title="Value of the request's context",
    source="S0 decides when a customer scans a merchant's code, and compares with nothing else",
    data="`world` with `context` 1: a response depends on the customer's traits and, as strongly, on merchant, "
    "basket and channel of the request. 30,000 fresh requests of 6,000 customers at one true cost of 24 cents; "
    "simulated",
    run=run,
    reading=reading,
    primary=Primary(SHARE, LIVE, STORED, effect=8.0, spread=6.0),
    seeds=20,
    compare=[(SHARE, LIVE, WITHOUT_PARTNER), (SHARE, LIVE, BLIND), (SHARE, STORED, BLIND)],
)
