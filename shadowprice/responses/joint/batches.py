"""Input of the gradient steps on a graph: some rows, and the part of the graph that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.encoders.base import GraphTensors
from shadowprice.graphs.sampler import NeighborSampler
from shadowprice.responses.joint import graph as graphs
from shadowprice.responses.joint.graph import ModelGraph
from shadowprice.responses.joint.network import Rows, RowTensors
from shadowprice.responses.training.devices import placed
from shadowprice.responses.training.processes import this_process

Step = tuple[GraphTensors, dict[Side, RowTensors]]

FANOUTS = (20, 10)
"""Edges kept into an account at the first and second hop; few accounts have more."""
STEP_ROWS = 1 << 16
"""Rows of a step on the whole graph: more cost time, and fewer leave most of the step to the graph."""
EPOCH_STEPS = 16
"""Steps of an epoch on the whole graph, at most."""
STEP_ACCOUNTS, NEIGHBORHOOD_STEPS = 1 << 9, 1 << 6
"""Accounts of a step on neighborhoods, each side in proportion, with all their rows; and steps of an epoch, so that it
takes no longer where there are more accounts."""
HELD_OUT_ACCOUNTS, HELD_OUT_FANOUTS = 1 << 13, (100, 50)
"""Accounts of the held-out rows that are measured after an epoch on neighborhoods, with almost all of their ties, as
the network will read them."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A graph and the labeled rows of each side, by split."""

    graph: ModelGraph
    train: Mapping[Side, Rows]
    validation: Mapping[Side, Rows]


def of_process(data: TrainingData, rank: int, count: int) -> TrainingData:
    """Rows of every ``count``-th account: all rows of one account stay together."""
    if count == 1:
        return data

    def own(rows: Mapping[Side, Rows]) -> dict[Side, Rows]:
        return {side: part.take(part.node % count == rank) for side, part in rows.items()}

    return replace(data, train=own(data.train), validation=own(data.validation))


class Batches(Protocol):
    """Steps of an epoch, as a function of the epoch alone, and what is measured after it.

    count  steps of an epoch, the same in all processes
    """

    count: int

    @property
    def held_out(self) -> Step:
        """Held-out rows, the same after every epoch."""

    def steps(self, epoch: int) -> Iterator[Step]:
        """Input of the gradient steps."""


def make_batches(data: TrainingData, seed: int = 0, device: str = "cpu") -> Batches:
    """Choose by the size of the graph what a step passes over; all processes take equally many steps.

    Args:
        data: the graph, and the rows of this process.
        seed: of the order of the rows.
        device: of the steps.
    """
    here = this_process()
    if data.graph.nodes <= graphs.WHOLE_GRAPH_NODES:
        rows = here.count * here.mean(float(sum(len(part) for part in data.train.values())))
        return WholeGraph(data, max(1, round(rows / STEP_ROWS)), seed, device)
    held_out = HELD_OUT_ACCOUNTS // here.count
    return Neighborhoods(data, STEP_ACCOUNTS // here.count, seed, held_out=held_out, device=device)


class WholeGraph:
    """Steps on the whole graph, each with one of ``parts`` parts of the rows; an epoch may end before the last."""

    def __init__(self, data: TrainingData, parts: int, seed: int, device: str = "cpu") -> None:
        self.count = min(parts, EPOCH_STEPS)
        self._train, self._parts, self._seed, self._device = data.train, parts, seed, device
        self._graph = placed(data.graph.whole, device)
        self._all = self._tensors(data.train) if parts == 1 else {}
        self.held_out: Step = self._graph, self._tensors(data.validation)

    def steps(self, epoch: int) -> Iterator[Step]:
        """Rows in an order that depends on the epoch, none twice."""
        if self._all:
            yield self._graph, self._all
            return
        random = np.random.default_rng([self._seed, epoch])
        parts = {s: np.array_split(random.permutation(len(rows)), self._parts) for s, rows in self._train.items()}
        for step in range(self.count):
            yield self._graph, self._tensors({side: rows.take(parts[side][step]) for side, rows in self._train.items()})

    def _tensors(self, rows: Mapping[Side, Rows]) -> dict[Side, RowTensors]:
        return placed({side: part.tensors() for side, part in rows.items()}, self._device)


@dataclass(frozen=True, eq=False)
class _ByAccount:
    """Rows of one side in order of their accounts.

    order  int64 (n,), rows by account
    start  int64 (accounts + 1,), where the rows of each account start
    """

    order: NDArray[np.int64]
    start: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows) -> _ByAccount:
        order = np.argsort(rows.node, kind="stable")
        first = np.flatnonzero(np.diff(rows.node[order], prepend=-1))
        return cls(order, np.append(first, order.size))

    @property
    def accounts(self) -> int:
        return int(self.start.size - 1)

    def rows(self, accounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows of some accounts."""
        count = self.start[accounts + 1] - self.start[accounts]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        chosen: NDArray[np.int64] = self.order[np.repeat(self.start[accounts], count) + within]
        return chosen


class Neighborhoods:
    """Steps on the sampled two-hop neighborhood of some accounts, with all rows of these (S0: k-hop subgraphs).

    A neighborhood costs much more than the rows that read it: an account's rows share one.

    Args:
        data: the graph, and the rows of this process.
        accounts: of a step.
        seed: of what is drawn.
        held_out: accounts that are measured after an epoch, at most.
        device: of the steps.
    """

    count = NEIGHBORHOOD_STEPS

    def __init__(
        self,
        data: TrainingData,
        accounts: int,
        seed: int,
        held_out: int = HELD_OUT_ACCOUNTS,
        device: str = "cpu",
    ) -> None:
        self._device = device
        self._graph, self._train, self._validation = data.graph, data.train, data.validation
        self._accounts, self._held_out, self._seed = accounts, held_out, seed
        self.sampler = NeighborSampler(data.graph.adjacency)
        self._by_account = {side: _ByAccount.of(rows) for side, rows in data.train.items()}

    def steps(self, epoch: int) -> Iterator[Step]:
        """Accounts drawn anew in each epoch, none twice in it."""
        random = np.random.default_rng([self._seed, epoch])
        chosen = self._draw(self._by_account, self.count * self._accounts, random)
        parts = {side: np.array_split(accounts, self.count) for side, accounts in chosen.items()}
        for step in range(self.count):
            yield self._around(
                {side: rows.take(self._by_account[side].rows(parts[side][step])) for side, rows in self._train.items()},
                FANOUTS,
                random,
            )

    @cached_property
    def held_out(self) -> Step:
        """Rows of some held-out accounts, with almost all of their neighborhood."""
        random = np.random.default_rng([self._seed, 1 << 31])
        by_account = {side: _ByAccount.of(rows) for side, rows in self._validation.items()}
        chosen = self._draw(by_account, self._held_out, random)
        rows = {side: part.take(by_account[side].rows(chosen[side])) for side, part in self._validation.items()}
        return self._around(rows, HELD_OUT_FANOUTS, random)

    def _draw(
        self, by_account: Mapping[Side, _ByAccount], accounts: int, random: np.random.Generator
    ) -> dict[Side, NDArray[np.int64]]:
        """Accounts of each side, in proportion to how many there are."""
        known = sum(pool.accounts for pool in by_account.values())
        return {
            side: random.choice(pool.accounts, min(pool.accounts, -(-accounts * pool.accounts // known)), replace=False)
            for side, pool in by_account.items()
        }

    def _around(self, rows: Mapping[Side, Rows], fanouts: Sequence[int], random: np.random.Generator) -> Step:
        asked = np.concatenate([np.concatenate([part.node, part.partner]) for part in rows.values()])
        seeds = np.unique(asked[asked >= 0])
        seen = self.sampler.sample(seeds, fanouts, random)

        def local(nodes: NDArray[np.int64]) -> torch.Tensor:
            return torch.from_numpy(np.where(nodes >= 0, np.searchsorted(seeds, nodes), -1))

        tensors: dict[Side, RowTensors] = {}
        for side, part in rows.items():
            tensors[side] = replace(part.tensors(), node=local(part.node), partner=local(part.partner))
        return placed((self._graph.around(seen), tensors), self._device)
