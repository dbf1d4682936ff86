"""Best possible response curves of ``world``'s customers, by the information used.

Traits and noise are normal and influence is linear in the traits, so the trait strengths of a customer given the
features of a set of accounts are normal too, with mean and covariance in closed form. The best curve in mean square
is the mean response under that law. No model that reads the same information predicts better in expectation, however
it is trained; a trained model also pays for the rows that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy import sparse

from shadowprice.datasets.world import WorldOptions, generator
from shadowprice.datasets.world.graph import FAR, TRAITS, WorldGraph, draw_graph

OWN, MEANS, NEAR, FULL, TRUTH = "own features", "partners' means", "one hop", "two hops", "true traits"
"""Information: a customer's features (DNN); with the unweighted mean of its merchants' features (DNN-H); with every
feature and tie at one hop; with every feature and tie (graph network); the traits themselves."""
NODES = 9
"""Quadrature nodes in each of the two dimensions."""


@dataclass(frozen=True, eq=False)
class Belief:
    """Normal law of the trait strengths of N accounts.

    mean        (N, 2)
    covariance  (N, 2, 2)
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def take(self, nodes: NDArray[np.intp]) -> Belief:
        return Belief(self.mean[nodes], self.covariance[nodes])

    def response(self, options: WorldOptions) -> NDArray[np.float64]:
        """(J, N): mean redemption probability under this law, by quadrature."""
        point, weight = hermegauss(NODES)
        weight = weight / weight.sum()
        # A known strength has no spread; the smallest one keeps the factorization defined.
        root = np.linalg.cholesky(self.covariance + 1e-12 * np.eye(TRAITS))
        total = np.zeros_like(options.respond(self.mean))
        for first, first_weight in zip(point, weight, strict=True):
            for second, second_weight in zip(point, weight, strict=True):
                strength = self.mean + root @ np.array([first, second])
                total += first_weight * second_weight * options.respond(strength)
        return total


def curves_by_information(options: WorldOptions, seed: int) -> tuple[WorldGraph, dict[str, NDArray[np.float64]]]:
    """Return the graph of the world at a seed, and information → best curves (J, customers)."""
    graph = draw_graph(options, generator(seed))
    beliefs = information(graph, options)
    return graph, {name: belief.take(graph.customers).response(options) for name, belief in beliefs.items()}


def information(graph: WorldGraph, options: WorldOptions) -> dict[str, Belief]:
    """Return information → law of every account's trait strengths."""
    known, spread = own_traits(graph, options.noise)
    parts = list(_operators(graph, options.rho))
    whole = [own + near + far for own, near, far in parts]
    size = graph.traits.shape[0]
    ties = (parts[0][1] != 0).astype(float) if options.rho else sparse.csr_matrix((size, size))
    reach = {
        OWN: sparse.identity(size, format="csr"),
        NEAR: (ties + sparse.identity(size)).astype(bool).astype(float),
        FULL: None,
    }
    found = {name: _belief(whole, seen, known, spread) for name, seen in reach.items()}
    found[MEANS] = _with_means(found[OWN], parts, ties, known, spread, graph)
    found[TRUTH] = Belief(graph.influence(options.rho), np.zeros((size, TRAITS, TRAITS)))
    return {name: found[name] for name in (OWN, MEANS, NEAR, FULL, TRUTH)}


def full_information(graph: WorldGraph, options: WorldOptions) -> Belief:
    """Return the law of every account's trait strengths given every feature and tie."""
    return _belief([sum(parts) for parts in _operators(graph, options.rho)], None, *own_traits(graph, options.noise))


def own_traits(graph: WorldGraph, noise: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean (N, 2) and covariance (N, 2, 2) of each account's traits, given its own features on every side."""
    size = graph.traits.shape[0]
    precision = np.tile(np.eye(TRAITS), (size, 1, 1))
    shown = np.zeros((size, TRAITS))
    variance = max(noise, 1e-6) ** 2
    for side, members in (("customer", graph.customers), ("merchant", graph.merchants)):
        loading = graph.loading[side]
        precision[members] += loading @ loading.T / variance
        shown[members] += graph.features[side] @ loading.T / variance
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return np.einsum("nij,nj->ni", covariance, shown), covariance


def _operators(graph: WorldGraph, rho: float) -> Iterator[tuple[sparse.csr_matrix, ...]]:
    """Per trait, the (N, N) operators from traits to strengths: own, over one hop and over two hops."""
    size = graph.traits.shape[0]
    share, (source, target) = graph.shares(), graph.tie
    ends = (np.concatenate([source, target]), np.concatenate([target, source]))
    near = sparse.csr_matrix((np.tile(share, 2), ends), shape=(size, size))
    far = (near @ near).tocsr()
    scale = np.sqrt(1 + (1 + FAR**2) * rho**2)
    for trait in graph.traits.T:
        deviation = float((near @ trait).std())
        farther = float((far @ trait / deviation).std())
        own = sparse.identity(size, format="csr") / scale
        yield own, near * (rho / deviation / scale), far * (FAR * rho / deviation / farther / scale)


def _belief(
    whole: list[sparse.csr_matrix],
    seen: sparse.csr_matrix | None,
    known: NDArray[np.float64],
    spread: NDArray[np.float64],
) -> Belief:
    """The law where each row of ``seen`` marks the accounts whose features are known; None where all are."""
    mine = whole if seen is None else [each.multiply(seen).tocsr() for each in whole]
    rest = [each - part for each, part in zip(whole, mine, strict=True)]
    mean = np.stack([part @ known[:, k] for k, part in enumerate(mine)], axis=1)
    covariance = np.zeros((mean.shape[0], TRAITS, TRAITS))
    for i in range(TRAITS):
        for j in range(TRAITS):
            covariance[:, i, j] = mine[i].multiply(mine[j]) @ spread[:, i, j]
        covariance[:, i, i] += np.asarray(rest[i].multiply(rest[i]).sum(axis=1)).ravel()
    return Belief(mean, covariance)


def _with_means(
    own: Belief,
    parts: list[tuple[sparse.csr_matrix, ...]],
    ties: sparse.csr_matrix,
    known: NDArray[np.float64],
    spread: NDArray[np.float64],
    graph: WorldGraph,
) -> Belief:
    """The law that adds the unweighted mean of the partners' expected traits to an account's own features.

    The expected traits m of partners are alike in law, so the mean of Σ w·m given their average is (Σ w)·average, and
    it explains (Σ w)²/k of their variance. Returns over two hops are left to the graph. An account's partners are
    taken to have the covariance of their side.
    """
    count = np.maximum(np.asarray(ties.sum(axis=1)).ravel(), 1.0)
    average = (ties @ known) / count[:, None]
    total = np.stack([np.asarray(near.sum(axis=1)).ravel() for _, near, _ in parts], axis=1)
    variance = np.tile(np.eye(TRAITS) - spread[graph.merchants].mean(axis=0), (count.size, 1, 1))
    variance[graph.merchants] = np.eye(TRAITS) - spread[graph.customers].mean(axis=0)
    covariance = own.covariance - variance * (total[:, :, None] * total[:, None, :] / count[:, None, None])
    return replace(own, mean=own.mean + total * average, covariance=covariance)
