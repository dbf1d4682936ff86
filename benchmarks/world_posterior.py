"""Bound on what any learner can know of the accounts of ``world``: its generator's own posterior.

Traits t are normal, features are t·Λ + noise, and the strength that moves an account's response is a known linear
function of the traits of accounts up to two ties away. For known loadings Λ, noise and ties the strengths are therefore
normal given all features, with a known mean and variance. A learner has to estimate Λ and the weights of ties, so no
learner decides better in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.world import WorldOptions, customer_response, generator, merchant_response
from shadowprice.datasets.world_graph import TRAITS, draw_graph
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import Tables

NODES = 9
"""Nodes of the Gauss–Hermite rule in each of the two strengths."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strengths:
    """Posterior of the strengths of N accounts given all features and ties: normal.

    account_id  str (N,)
    mean        (N, 2)
    covariance  (N, 2, 2)
    """

    account_id: NDArray[np.str_]
    mean: Array
    covariance: Array


def strengths(options: WorldOptions, seed: int) -> Strengths:
    """The posterior in the world of these options and this seed. O(pairs of accounts two ties apart)."""
    graph = draw_graph(options, generator(seed))
    nodes = graph.ids.size
    precision, linear = np.tile(np.eye(TRAITS), (nodes, 1, 1)), np.zeros((nodes, TRAITS))
    for side, members in (("customer", graph.customers), ("merchant", graph.merchants)):
        loading = graph.loading[side] / options.noise
        precision[members] += loading @ loading.T
        linear[members] += graph.features[side] / options.noise @ loading.T
    variance = np.linalg.inv(precision)
    mean = np.einsum("nij,nj->ni", variance, linear)

    ties = sparse.coo_array((graph.shares(), (graph.tie[0], graph.tie[1])), shape=(nodes, nodes)).tocsr()
    ties = ties + ties.T
    twice = ties @ ties
    near = ties @ graph.traits
    far = ties @ (near / near.std(axis=0))
    rho = options.rho
    near_scale, far_scale = near.std(axis=0), near.std(axis=0) * far.std(axis=0)
    maps = [
        (sparse.eye_array(nodes) + rho * ties / near_scale[k] + 0.7 * rho * twice / far_scale[k])
        / np.sqrt(1 + 1.49 * rho**2)
        for k in range(TRAITS)
    ]
    covariance = np.empty((nodes, TRAITS, TRAITS))
    for i in range(TRAITS):
        for j in range(TRAITS):
            covariance[:, i, j] = maps[i].multiply(maps[j]) @ variance[:, i, j]
    return Strengths(graph.ids, np.stack([maps[k] @ mean[:, k] for k in range(TRAITS)], axis=1), covariance)


def posterior_curves(
    data: TrainingSet, tables: Tables, known: Strengths, *, own_outcomes: bool
) -> Mapping[Side, Curves]:
    """Posterior mean curves (J, N) of the accounts that are served, by Gauss–Hermite quadrature.

    ``own_outcomes`` adds what an account's own trial rows tell of its strengths: redemptions, and counts of shares.
    """
    found: dict[Side, Curves] = {}
    point, mass = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack(np.meshgrid(point, point, indexing="ij"), axis=-1).reshape(-1, TRAITS)
    prior = np.log(np.outer(mass, mass).ravel() / mass.sum() ** 2)
    for side in data.serving:
        respond = customer_response if side == "customer" else merchant_response
        accounts = data.serving[side]["account_id"].to_numpy(dtype=str)
        node = pd.Index(known.account_id).get_indexer(pd.Index(accounts))
        root = np.linalg.cholesky(known.covariance[node] + 1e-12 * np.eye(TRAITS))
        curves = [respond(known.mean[node] + root @ place) for place in grid]
        log_mass = np.repeat(prior[:, None], node.size, axis=1)
        if own_outcomes:
            log_mass += np.stack([_log_likelihood(data.rows[side], tables, accounts, each, side) for each in curves])
        weight = np.exp(log_mass - log_mass.max(axis=0))
        weight /= weight.sum(axis=0)
        mean = sum(w * curve for w, curve in zip(weight, curves, strict=True))
        found[side] = Curves(np.asarray(data.levels[side]), np.asarray(mean, dtype=np.float32))
    return found


def _log_likelihood(rows: pd.DataFrame, tables: Tables, accounts: NDArray[np.str_], curves: Array, side: Side) -> Array:
    """(N,): of each account's own trial rows under curves (J, N), up to a constant."""
    column = pd.Index(accounts).get_indexer(pd.Index(rows["account_id"]))
    mean = curves[rows["level"].to_numpy(dtype=np.int64), column]
    if side == "customer":
        each = np.where(rows["response"] > 0.5, np.log(mean), np.log1p(-mean))
    else:
        outcome = tables.outcome.set_index("request_id").loc[rows["request_id"]]
        count = outcome["share_count"].to_numpy(dtype=np.float64)
        before = np.maximum(outcome["share_count_before"].to_numpy(dtype=np.float64), 1.0)
        each = count * np.log(mean) - before * mean
    return np.bincount(column, weights=each, minlength=accounts.size).astype(np.float64)
