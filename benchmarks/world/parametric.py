"""``world``'s own parametric form, fitted to the rows of its trial: a bound for models that must learn the form too."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.world.posterior import hits_and_tries
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.world.graph import FAR, TRAITS, WorldGraph
from shadowprice.datasets.world.responses import CHANGE_POINTS, CUSTOMER_LEVELS, LOG_RATE, MERCHANT_LEVELS, TRAIT_EFFECT
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import Tables

NODES = 3
"""Quadrature nodes in each of the two dimensions."""
ROUNDS = 150
LEAST = 1e-9
LEVELS: Mapping[Side, tuple[int, ...]] = {"customer": CUSTOMER_LEVELS, "merchant": MERCHANT_LEVELS}

Parameters = dict[str, Tensor]


def fitted_curves(
    graph: WorldGraph, data: TrainingSet, tables: Tables, *, threshold: bool, noise: float
) -> Mapping[Side, Curves]:
    """Return curves (J, N) of the accounts that are served.

    Features, strength of ties, influence over two hops and responses have the generator's form; every number in them is
    fitted by maximum likelihood of features and outcomes. An account's own deviation from what features and graph say
    is normal and integrated out. The search starts at the generator's parameters, so that it ends at the maximum beside
    them.

    Args:
        graph: of the world; its traits are not read, and its loadings only start the search.
        data: what is served and the trial rows, those of training and validation; tables: what they were made of.
        threshold: whether influence counts only where it is positive.
        noise: standard deviation of the noise in the features, where the search starts.
    """
    form = Form(graph, threshold)
    parameters = form.start(noise)
    rows = data.part("train", "validation")
    outcomes = {side: form.outcomes(frame, tables, side) for side, frame in rows.items()}
    search = torch.optim.LBFGS(
        list(parameters.values()), max_iter=ROUNDS, history_size=20, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        search.zero_grad()
        total = -form.log_likelihood(parameters, outcomes) / len(graph.ids)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    search.step(loss)  # type: ignore[no-untyped-call]
    found: dict[Side, Curves] = {}
    for side, served in data.serving.items():
        place = form.places(side, served["account_id"])
        with torch.no_grad():
            response = form.mean_response(parameters, side)[:, place]
        found[side] = Curves(np.asarray(data.levels[side]), response.numpy().astype(np.float32))
    return found


class Form:
    """Formulas of the world as functions of its parameters."""

    def __init__(self, graph: WorldGraph, threshold: bool) -> None:
        self.graph, self.threshold = graph, threshold
        self.members = {"customer": torch.from_numpy(graph.customers), "merchant": torch.from_numpy(graph.merchants)}
        self.features = {side: torch.tensor(values) for side, values in graph.features.items()}
        self.source, self.target = (torch.from_numpy(end.astype(np.int64)) for end in graph.tie)
        self.log_payments = torch.tensor(np.log(graph.payments.astype(np.float64)))
        self.log_amount = torch.tensor(graph.log_amount)
        point, weight = np.polynomial.hermite_e.hermegauss(NODES)
        grid = np.stack(np.meshgrid(point, point, indexing="ij"), axis=-1).reshape(-1, TRAITS)
        self.points, self.log_weight = torch.tensor(grid), torch.tensor(np.log(np.outer(weight, weight).ravel()))
        self.log_weight = self.log_weight - self.log_weight.logsumexp(0)
        self.regime = torch.from_numpy(np.digitize(np.array(CUSTOMER_LEVELS) - 1e-9, CHANGE_POINTS))
        self.width = torch.tensor(np.diff(np.array([0, *CUSTOMER_LEVELS])) / 100.0)
        self.cents = torch.tensor(np.array(MERCHANT_LEVELS) / 100.0)

    def start(self, noise: float) -> Parameters:
        """The generator's parameters; those of what features and graph do not say are small."""
        given = {
            "log_noise": np.log(noise),
            "customer": self.graph.loading["customer"],
            "merchant": self.graph.loading["merchant"],
            "tie": [0.5, 0.5],
            "influence": [[1.0, 1.0], [FAR, FAR]],
            "cut": [0.3, 0.3],
            "log_rate": LOG_RATE,
            "effect": TRAIT_EFFECT,
            "slope": [np.log(0.5), 0.5, 0.0],
            "begin": [0.8, 0.0, 0.15],
            "rest_customer": 0.4 * np.eye(TRAITS),
            "rest_merchant": 0.4 * np.eye(TRAITS),
        }
        return {name: torch.tensor(np.asarray(v, dtype=np.float64), requires_grad=True) for name, v in given.items()}

    def places(self, side: Side, accounts: pd.Series[str]) -> Tensor:
        """(n,): where accounts stand among those of their side."""
        known = pd.Index(self.graph.ids[self.members[side].numpy()])
        return torch.from_numpy(known.get_indexer(pd.Index(accounts.astype(str))).astype(np.int64))

    def outcomes(self, rows: pd.DataFrame, tables: Tables, side: Side) -> tuple[Tensor, Tensor]:
        """Hits and tries (J, n) of a side's accounts."""
        place = (torch.from_numpy(rows["level"].to_numpy(dtype=np.int64)), self.places(side, rows["account_id"]))
        empty = torch.zeros(len(LEVELS[side]), self.members[side].numel(), dtype=torch.float64)
        hits, tries = (torch.tensor(each) for each in hits_and_tries(rows, tables, side))
        return empty.index_put(place, hits, accumulate=True), empty.index_put(place, tries, accumulate=True)

    def traits(self, p: Parameters) -> Tensor:
        """(N, 2): expected traits of every account given its own features on every side."""
        variance = torch.exp(2 * p["log_noise"])
        size = len(self.graph.ids)
        precision = torch.eye(TRAITS, dtype=torch.float64).expand(size, TRAITS, TRAITS)
        shown = torch.zeros(size, TRAITS, dtype=torch.float64)
        for side, members in self.members.items():
            added = (p[side] @ p[side].T / variance).expand(members.numel(), TRAITS, TRAITS)
            precision = precision.index_add(0, members, added)
            shown = shown.index_add(0, members, self.features[side] @ p[side].T / variance)
        expected: Tensor = torch.linalg.solve(precision, shown)
        return expected

    def strength(self, p: Parameters) -> Tensor:
        """(N, 2): expected trait strengths, each hop at the deviation of what arrives."""
        weight = torch.exp(p["tie"][0] * self.log_payments + p["tie"][1] * self.log_amount)
        mass = self.received(weight, torch.ones(len(self.graph.ids), 1, dtype=torch.float64))[:, 0]
        share = weight / torch.sqrt(mass[self.source] * mass[self.target])
        total = hop = self.traits(p)
        for k, influence in enumerate(p["influence"]):
            hop = self.received(share, hop)
            if self.threshold:
                hop = _positive_part(hop / hop.std(dim=0), p["cut"][k])
                hop = hop - hop.mean(dim=0)
            hop = hop / hop.std(dim=0)
            total = total + influence * hop
        return total / torch.sqrt(1 + p["influence"].square().sum(dim=0))

    def received(self, share: Tensor, values: Tensor) -> Tensor:
        """(N, D): sum of what each account gets of the other ends of its ties."""
        sent = torch.zeros_like(values).index_add(0, self.source, share[:, None] * values[self.target])
        return sent.index_add(0, self.target, share[:, None] * values[self.source])

    def response(self, p: Parameters, side: Side, strength: Tensor) -> Tensor:
        """(K, J, n): log of no redemption of customers, mean shares of merchants, for strengths (K, n, 2)."""
        if side == "customer":
            log_rate = p["log_rate"][:, None] + torch.einsum("rt,knt->krn", p["effect"], strength)
            return -torch.cumsum(self.width[:, None] * torch.exp(log_rate[:, self.regime]), dim=1)
        slope = torch.exp(p["slope"][0] + strength @ p["slope"][1:])
        begin = torch.clamp(p["begin"][0] + strength @ p["begin"][1:], min=0.1)
        return begin[:, None] + self.cents[:, None] * slope[:, None]

    def at_nodes(self, p: Parameters, side: Side) -> Tensor:
        """The response of a side's accounts at each quadrature node of their own deviation."""
        own = self.strength(p)[self.members[side]]
        return self.response(p, side, own + (self.points @ p[f"rest_{side}"].T)[:, None])

    def mean_response(self, p: Parameters, side: Side) -> Tensor:
        """(J, n): mean response of a side's accounts."""
        found = self.at_nodes(p, side)
        mean = -torch.expm1(found) if side == "customer" else found
        return (torch.exp(self.log_weight)[:, None, None] * mean).sum(dim=0)

    def log_likelihood(self, p: Parameters, outcomes: Mapping[Side, tuple[Tensor, Tensor]]) -> Tensor:
        """Log-likelihood of features and outcomes, up to a constant."""
        total = torch.zeros((), dtype=torch.float64)
        for side, (hits, tries) in outcomes.items():
            found = self.at_nodes(p, side)
            if side == "customer":
                each = hits * torch.log(-torch.expm1(found) + LEAST) + (tries - hits) * found
            else:
                each = hits * torch.log(found) - tries * found
            total = total + torch.logsumexp(self.log_weight[:, None] + each.sum(dim=1), dim=0).sum()
            spread = torch.exp(2 * p["log_noise"]) * torch.eye(p[side].shape[1]) + p[side].T @ p[side]
            root = torch.linalg.cholesky(spread)
            shown = torch.linalg.solve_triangular(root, self.features[side].T, upper=False)
            total = total - 0.5 * shown.square().sum() - shown.shape[1] * root.diagonal().log().sum()
        return total


def _positive_part(mean: Tensor, deviation: Tensor) -> Tensor:
    """Mean of the positive part of normal variables."""
    ratio = mean / deviation
    density = torch.exp(-0.5 * ratio.square()) / math.sqrt(2 * math.pi)
    found: Tensor = mean * torch.special.ndtr(ratio) + deviation.abs() * density
    return found
