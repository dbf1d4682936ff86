"""Training of a fund network: where it starts, its loss, and its gradient steps."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shadowprice.encoders.base import GraphTensors
from shadowprice.graphs.sampler import NeighborSampler
from shadowprice.responses.funds.network import FundNetwork
from shadowprice.responses.funds.offers import OfferInputs
from shadowprice.responses.funds.outputs import Outputs
from shadowprice.responses.funds.rows import FundRows
from shadowprice.responses.joint.batches import FANOUTS
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.loop import BestEpoch, GradientDescent
from shadowprice.responses.training.processes import weighted_mean
from shadowprice.responses.training.team import share_out

WHOLE_GRAPH = 50_000
"""Nodes up to which a step passes over the whole graph; beyond, over a sampled neighborhood of its rows."""


class Neighborhoods:
    """Graph of a training step: the whole one, or where it is large a sampled neighborhood of the step's rows."""

    def __init__(self, graph: GraphTensors | None, seed: int) -> None:
        self._graph, self._seed = graph, seed
        large = graph is not None and graph.nodes > WHOLE_GRAPH
        self._sampler = NeighborSampler(graph.adjacency) if graph is not None and large else None

    def of(self, node: Tensor | None, epoch: int) -> tuple[GraphTensors | None, Tensor | None]:
        """A graph and the rows' nodes in it; the sample depends on the epoch and the nodes alone."""
        if self._graph is None or self._sampler is None or node is None:
            return self._graph, node
        seeds, place = np.unique(node.numpy(), return_inverse=True)
        random = np.random.default_rng([self._seed, 1, epoch, *seeds[:1].tolist()])
        seen = self._sampler.sample(seeds, FANOUTS, random)
        return self._graph.around(seen), torch.from_numpy(place)


TRAINING = TrainingConfig(learning_rate=3e-3, decay=0.95, epochs=30, patience=5, weight_decay=0.3)
BATCH_ROWS = 512
"""Rows of a step (S2)."""
STEPS_ON_A_GRAPH = 8
"""Steps of an epoch at most where each one passes over a graph and the configuration leaves its rows open."""


def fit_network(
    network: FundNetwork,
    outputs: Outputs,
    train: FundRows,
    held_out: FundRows,
    graph: GraphTensors | None,
    config: TrainingConfig,
    progress: Progress | None,
) -> None:
    """Train in place and leave the network at its best epoch on the rows held out, the start included."""
    if not config.batch_rows:
        rows = BATCH_ROWS if graph is None else max(BATCH_ROWS, math.ceil(len(train) / STEPS_ON_A_GRAPH))
        config = replace(config, batch_rows=rows)

    def fit(network: FundNetwork, part: tuple[FundRows, FundRows], progress: Progress | None) -> FitResult:
        train, held_out = part
        around = Neighborhoods(graph, config.seed)

        def loss(rows: FundRows, graph: GraphTensors | None, node: Tensor | None) -> Tensor:
            embedded = network.embed_graph(graph) if graph is not None else None
            raw = network(network.account(rows.numeric, rows.category, rows.events, embedded, node), rows.level)
            return weighted_mean(outputs.rows(raw, rows), rows.weight)

        def of_step(index: Tensor, epoch: int) -> Tensor:
            rows = train.take(index)
            return loss(rows, *around.of(rows.node, epoch))

        return GradientDescent(
            network,
            shuffled(len(train), config),
            of_step,
            lambda: float(loss(held_out, graph, held_out.node)),
            parameters=network.parameter_groups(),
        ).run(config, progress=progress, best=BestEpoch(keep_start=True))

    def deal(rank: int, count: int) -> tuple[FundRows, FundRows]:
        if count == 1:
            return train, held_out
        mine = (torch.arange(rank, len(rows), count) for rows in (train, held_out))
        return train.take(next(mine)), held_out.take(next(mine))

    share_out(fit, network, deal, min(len(train), len(held_out)), progress)


def start_of(outputs: Outputs, rows: FundRows, offers: OfferInputs | None) -> Tensor:
    """Raw outputs (T,) at which training starts; given offers, one row for each identity, whose sigma is its own."""
    overall = outputs.start(rows)
    if offers is None:
        return overall
    by_level = [rows.take(rows.level == level) for level in np.flatnonzero(offers.identity).tolist()]
    # Two purchases are the least that say anything of a spread.
    own = [outputs.start(part) if int((part.v > 0).sum()) > 1 else overall for part in by_level]
    return torch.stack([overall, *own])
