"""Regret on accounts that came after training, by the information about them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.world.equal_cost import Choices, attainable, value_at_cost
from benchmarks.world.training_set import training_set
from research.table import Primary, Rows, Summary, Table
from research.tables.context import learned, requests
from shadowprice.datasets.world import CUSTOMER_LEVELS, WorldOptions, generator
from shadowprice.datasets.world.context import draw_context
from shadowprice.datasets.world.graph import draw_graph
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.joint.inputs import request_values
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.layers.tower import ServedTower

MEAN, CONTEXT = "mean embedding", "mean embedding, with the request's context"
OWN, TIES = "own features, with context", "own features and ties, with context"
KNOWN = "known to training, with context"
NEW = (0.1, 0.3, 0.5)
CENTS, REQUESTS = 24.0, 20_000
QUICK: dict[str, Any] = {"customers": 800, "merchants": 200, "both": 0}
Matrix = NDArray[np.float64]


def _column(share: float) -> str:
    return f"regret at {share:.0%} new, %"


def run(seed: int, quick: bool) -> Rows:
    options = {"context": 1.0, **(QUICK if quick else {"both": 0})}
    _, data = training_set("world", seed, **options)
    world = WorldOptions(**options)
    graph, random = draw_graph(world, generator(seed)), np.random.default_rng([seed, 0xC01D])
    order = random.permutation(graph.customers)
    full = learned(data, seed, quick)
    rows: dict[str, dict[str, float]] = {name: {} for name in (MEAN, CONTEXT, OWN, TIES, KNOWN)}
    for share in NEW:
        new = np.sort(order[: round(share * order.size)])
        before = without(data, graph.ids[new])
        model = learned(before, seed, quick)
        assert isinstance(model, JointModel)
        customer = random.choice(new, REQUESTS // 10 if quick else REQUESTS)
        context = draw_context(graph, customer, random)
        truth = world.respond(context.moves(graph, graph.influence(world.rho)[customer], world.context))
        asked, (snapshot,) = requests(graph, customer, context), data.snapshots
        alone = data.seeing([without_ties(snapshot, graph.ids[new])]).inputs
        believed = {
            MEAN: at_mean(model, before, asked, context=False),
            CONTEXT: at_mean(model, before, asked, context=True),
            OWN: model.curves(alone, {"customer": asked})["customer"].response,
            TIES: model.curves(data.inputs, {"customer": asked})["customer"].response,
            KNOWN: full.curves(data.inputs, {"customer": asked})["customer"].response,
        }
        cost, budget = _cost(truth), CENTS * customer.size
        best = attainable([Choices(truth, cost, truth, cost)], budget).best
        for name, response in believed.items():
            guess = np.asarray(response, dtype=np.float64)
            value = value_at_cost([Choices(guess, _cost(guess), truth, cost)], budget)
            rows[name][_column(share)] = 100 * (1 - value / best)
    return rows


def _cost(response: Matrix) -> Matrix:
    return np.asarray(np.array(CUSTOMER_LEVELS)[:, None] * response)


def without(data: TrainingSet, names: NDArray[np.str_]) -> TrainingSet:
    """Return the training set as it was before some customers came: without their rows, nodes and ties."""
    customers = data.rows["customer"]
    rows = {**data.rows, "customer": customers[~customers["account_id"].isin(names)].reset_index(drop=True)}
    (snapshot,) = data.snapshots
    return replace(data, rows=rows).seeing([kept(snapshot, ~np.isin(snapshot.account_id, names))])


def kept(snapshot: GraphSnapshot, nodes: NDArray[np.bool_]) -> GraphSnapshot:
    """Return the part of a snapshot that some nodes and the ties between them make."""
    place = np.cumsum(nodes) - 1
    ties = nodes[snapshot.edge_index].all(axis=0)
    return replace(
        snapshot,
        account_id=snapshot.account_id[nodes],
        is_side=snapshot.is_side[:, nodes],
        features={side: values[nodes] for side, values in snapshot.features.items()},
        edge_index=place[snapshot.edge_index[:, ties]],
        edge_features=snapshot.edge_features[ties],
    )


def without_ties(snapshot: GraphSnapshot, names: NDArray[np.str_]) -> GraphSnapshot:
    """Return the snapshot without the ties of some accounts."""
    alone = np.isin(snapshot.account_id, names)
    ties = ~alone[snapshot.edge_index].any(axis=0)
    return replace(snapshot, edge_index=snapshot.edge_index[:, ties], edge_features=snapshot.edge_features[ties])


def at_mean(model: JointModel, data: TrainingSet, asked: pd.DataFrame, *, context: bool) -> NDArray[np.float32]:
    """Curves (J, n) as the service computes them for accounts without an embedding."""
    customers = data.rows["customer"].drop_duplicates("account_id")
    known = model.embed_parts(data.inputs, {"customer": customers})["customer"]
    head = model.heads({"customer": known.request})["customer"]
    assert isinstance(known.tower, ServedTower)
    if not context:
        return head.response(np.tile(head.default_embedding, (len(asked), 1)))
    names, place = np.unique(asked["partner_id"].to_numpy(dtype=str), return_inverse=True)
    merchants = model.embed_parts(data.inputs, {"merchant": pd.DataFrame({"account_id": names})})["merchant"].request
    tower = known.tower
    mean = np.tile(tower.default_own, (len(asked), 1))
    return head.response(tower.embed(mean, request_values(asked, tower.context.names), merchants[place]))


def reading(found: Summary) -> str:
    column = _column(NEW[1])
    return (
        f"The request's context: {found.finding(column, CONTEXT, MEAN)}. The customer's own features: "
        f"{found.finding(column, OWN, CONTEXT)}. Its ties: {found.finding(column, TIES, OWN)}."
    )


TABLE = Table(
    title="Accounts that came after training",
    source="S0's graph has all accounts; here some are new",
    data="`world` with `context` 1; a share of the 6,000 customers is left out of training; 20,000 fresh requests "
    "of these at one true cost of 24 cents; simulated. Regret: value below the optimum that knows the truth",
    run=run,
    reading=reading,
    primary=Primary(_column(NEW[1]), OWN, MEAN, effect=0.5, spread=0.3),
    compare=[
        (_column(NEW[1]), CONTEXT, MEAN),
        (_column(NEW[1]), OWN, CONTEXT),
        (_column(NEW[1]), TIES, OWN),
        (_column(NEW[1]), KNOWN, TIES),
    ],
    fewer_is_better=tuple(map(_column, NEW)),
)
