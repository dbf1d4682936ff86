"""The graph that a network reads: snapshots side by side, standardized where they are read."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.campaign import SIDES, Side
from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors
from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.sampler import Neighborhood, NeighborSampler
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.on_ray.parts import exchange_folder, in_parts
from shadowprice.progress import ProgressBar
from shadowprice.responses.joint.inputs import InputScaling, columns_of

WHOLE_GRAPH_NODES = 300_000
"""Up to this many nodes everything is computed on the whole graph at once."""
BLOCK_NODES = 1 << 16
"""Nodes embedded at a time on larger graphs, at most."""
BLOCK_TIES = 1 << 18
"""Ties into them, at most: a block's memory is that of their messages."""


class ModelGraph:
    """The block-diagonal union of snapshots: an account is one node in each that it appears in.

    Args:
        snapshots: in order of time; their arrays may be mapped files, of which only what is asked for is read.
        scaling: of the features.
    """

    def __init__(self, snapshots: Sequence[GraphSnapshot], scaling: InputScaling) -> None:
        self._snapshots, self._scaling = snapshots, scaling
        self._nodes = np.cumsum([0, *(snapshot.nodes for snapshot in snapshots)])
        self._ties = np.cumsum([0, *(snapshot.edges for snapshot in snapshots)])

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the snapshots, and reads of them what it needs."""
        return {name: value for name, value in vars(self).items() if name.startswith("_")}

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self._nodes[-1])

    @cached_property
    def whole(self) -> GraphTensors:
        """All of it, in memory."""
        firsts = self._nodes[:-1].tolist()
        index = np.concatenate([s.edge_index + first for s, first in zip(self._snapshots, firsts, strict=True)], axis=1)
        edges = self._edge_features(np.arange(self._ties[-1]))
        return GraphTensors.whole(
            *self._node_features(np.arange(self.nodes)),
            edge_index=torch.from_numpy(np.concatenate([index, index[::-1]], axis=1)),
            edge_features=torch.cat([edges, edges]),
        )

    @cached_property
    def adjacency(self) -> Adjacency:
        """The ties into every node."""
        return Adjacency.side_by_side([snapshot.adjacency for snapshot in self._snapshots])

    def around(self, seen: Neighborhood, *, features: bool = True) -> GraphTensors:
        """The part of the graph that a neighborhood holds, its nodes renumbered, its degrees those of the whole.

        Without ``features`` those of nodes are left out: hops do not read them.
        """
        start = self.adjacency.start
        return GraphTensors(
            *(self._node_features(seen.nodes) if features else ({}, self._sides(seen.nodes))),
            edge_index=torch.from_numpy(seen.edge_index),
            edge_features=self._edge_features(seen.edges),
            degree=torch.from_numpy((1 + start[seen.nodes + 1] - start[seen.nodes]).astype(np.float32)),
        )

    def embed(self, encoder: GraphEncoder) -> Tensor:
        """Embeddings (N, WIDTH) of all nodes, without gradients.

        On a large graph hop by hop, each over blocks of nodes and what is tied to them, with what lies between the
        hops in temporary files: memory for the embeddings and a block, O(N + E) whatever the number of hops. Inside
        :func:`~shadowprice.on_ray.parts.on_actors` the blocks of a hop are shared by Ray actors.
        """
        with torch.no_grad():
            return encoder(self.whole) if self.nodes <= WHOLE_GRAPH_NODES else self._by_hop(encoder)

    def _by_hop(self, encoder: GraphEncoder) -> Tensor:
        readouts, hops = torch.empty(self.nodes, WIDTH), encoder.hops
        with (
            tempfile.TemporaryDirectory(dir=exchange_folder()) as folder,
            ProgressBar("embed accounts", (hops + 2) * self.nodes, "node") as shown,
        ):
            paths = [Path(folder) / f"{number}.npy" for number in range(hops + 1)]
            for number, path in enumerate(paths):
                values: np.memmap[Any, np.dtype[np.float32]] | None = None
                step = HopStep(self, encoder, number, paths[number - 1] if number else None)
                for block, part in zip(self._blocks(), in_parts(step, self._blocks()), strict=True):
                    if values is None:
                        shape = (self.nodes, part.shape[1])
                        values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
                    values[slice(*block)] = part
                    shown.advance(block[1] - block[0])
                if values is not None:
                    values.flush()
                # Pages of mapped files count as memory.
                values = None
            for block in self._blocks():
                # Mapped anew for each block, for the same reason.
                read = [torch.from_numpy(np.load(path, mmap_mode="r")[slice(*block)].copy()) for path in paths]
                readouts[slice(*block)] = encoder.readout(read)
                shown.advance(block[1] - block[0])
        return readouts

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """First node and end of each block, in order.

        A block has at most ``BLOCK_NODES`` nodes and ``BLOCK_TIES`` ties, or is one node with more ties.
        """
        start, first = self.adjacency.start, 0
        while first < self.nodes:
            end = int(np.searchsorted(start, start[first] + BLOCK_TIES, side="right")) - 1
            end = min(max(end, first + 1), first + BLOCK_NODES, self.nodes)
            yield first, end
            first = end

    def _node_features(self, nodes: NDArray[np.int64]) -> tuple[dict[Side, Tensor], Tensor]:
        """Standardized features of each side, zeros where a node is not of it, and which sides nodes are of."""
        raw = {
            side: np.full((nodes.size, len(self._scaling.node[side].names)), np.nan, dtype=np.float32) for side in SIDES
        }
        for snapshot, place, own in self._by_snapshot(nodes, self._nodes):
            for side in SIDES:
                raw[side][place] = columns_of(snapshot, side, self._scaling.node[side].names, own)
        features, is_side = dict[Side, Tensor](), self._sides(nodes)
        for position, side in enumerate(SIDES):
            scaled = torch.from_numpy(self._scaling.node[side].apply(raw[side]))
            scaled[is_side[position] == 0] = 0.0
            features[side] = scaled
        return features, is_side

    def _sides(self, nodes: NDArray[np.int64]) -> Tensor:
        """float32 (2, n), 1 where a node is of that side."""
        is_side = np.zeros((len(SIDES), nodes.size), dtype=np.float32)
        for snapshot, place, own in self._by_snapshot(nodes, self._nodes):
            is_side[:, place] = snapshot.is_side[:, own]
        return torch.from_numpy(is_side)

    def _edge_features(self, ties: NDArray[np.integer]) -> Tensor:
        raw = np.empty((ties.size, len(self._scaling.edge.names)), dtype=np.float32)
        for snapshot, place, own in self._by_snapshot(ties, self._ties):
            raw[place] = snapshot.edge_features[own]
        return torch.from_numpy(self._scaling.edge.apply(raw))

    def _by_snapshot(
        self, numbers: NDArray[np.integer], firsts: NDArray[np.int64]
    ) -> Iterator[tuple[GraphSnapshot, slice | NDArray[np.bool_], NDArray[np.integer] | slice]]:
        """Each snapshot, where in ``numbers`` its own stand, and their numbers in it."""
        for snapshot, (first, end) in zip(self._snapshots, pairwise(firsts.tolist()), strict=True):
            if len(self._snapshots) == 1:
                yield snapshot, slice(None), numbers
                continue
            place = (numbers >= first) & (numbers < end)
            yield snapshot, place, numbers[place] - first


@dataclass(frozen=True)
class HopStep:
    """Hidden values (n, width) of a block of nodes after a hop, without gradients.

    graph    of the nodes
    encoder  whose hop it is
    number   of the hop; 0 is the start
    before   file with the hidden values (N, width) of all nodes after the hop before; None at the start
    """

    graph: ModelGraph
    encoder: GraphEncoder
    number: int
    before: Path | None

    @torch.no_grad()
    def __call__(self, block: tuple[int, int]) -> NDArray[np.float32]:
        """Compute those of the nodes from the first to before the end."""
        nodes = np.arange(*block)
        # At the start a node's own features are read, and no neighbor.
        fanouts = () if self.before is None else (None,)
        seen = NeighborSampler(self.graph.adjacency).sample(nodes, fanouts, np.random.default_rng(0))
        graph = self.graph.around(seen, features=self.before is None)
        if self.before is None:
            return self.encoder.start(graph).numpy()
        hidden = torch.from_numpy(np.load(self.before, mmap_mode="r")[seen.nodes])
        return self.encoder.hop(self.number - 1, hidden, *self.encoder.edges(graph))[: nodes.size].numpy()


class NodeEmbeddings:
    """Embeddings of all nodes of the graph that was last asked for; copies of a model share them."""

    def __init__(self) -> None:
        self._of: tuple[list[GraphSnapshot], bytes] | None = None
        self._found = torch.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeEmbeddings:
        return self

    def of(self, snapshots: Sequence[GraphSnapshot], scaling: InputScaling, encoder: GraphEncoder) -> Tensor:
        """Embeddings (N, WIDTH), computed anew where snapshots or weights are not those of the last call."""
        hasher = hashlib.sha256()
        for weights in encoder.state_dict().values():
            hasher.update(weights.numpy().tobytes())
        before, digest = self._of, hasher.digest()
        same = before is not None and digest == before[1] and len(snapshots) == len(before[0])
        if before is None or not same or any(a is not b for a, b in zip(snapshots, before[0], strict=True)):
            self._of, self._found = None, torch.empty(0)
            self._found = ModelGraph(snapshots, scaling).embed(encoder)
            self._of = list(snapshots), digest
        return self._found
