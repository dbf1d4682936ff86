"""The graph that a network reads: snapshots side by side, standardised where they are read."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
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
from shadowprice.graphs.sampler import Neighbourhood, NeighbourSampler
from shadowprice.graphs.snapshot import GraphSnapshot
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

    def around(self, seen: Neighbourhood, *, features: bool = True) -> GraphTensors:
        """The part of the graph that a neighbourhood holds, its nodes renumbered, its degrees those of the whole.

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
        hops in temporary files: memory for the embeddings and a block, O(N + E) whatever the number of hops.
        """
        with torch.no_grad():
            return encoder(self.whole) if self.nodes <= WHOLE_GRAPH_NODES else self._by_hop(encoder)

    def _by_hop(self, encoder: GraphEncoder) -> Tensor:
        found = torch.empty(self.nodes, WIDTH)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.npy" for number in range(encoder.hops + 1)]
            for number in range(len(paths)):
                self._write_hop(encoder, number, paths)
            for block in self._blocks():
                rows = slice(block[0], block[-1] + 1)
                # Mapped anew for each block: pages of mapped files count as memory.
                read = [torch.from_numpy(np.load(path, mmap_mode="r")[rows].copy()) for path in paths]
                found[rows] = encoder.readout(read)
        return found

    def _write_hop(self, encoder: GraphEncoder, number: int, paths: Sequence[Path]) -> None:
        """Write hidden values (N, width) of all nodes after a hop, from those before it; hop 0 is the start."""
        sampler, random = NeighbourSampler(self.adjacency), np.random.default_rng(0)
        hidden = np.load(paths[number - 1], mmap_mode="r") if number else None
        values: NDArray[np.float32] | None = None
        for block in self._blocks():
            # At the start a node's own features are read, and no neighbour.
            seen = sampler.sample(block, () if hidden is None else (None,), random)
            graph = self.around(seen, features=hidden is None)
            if hidden is None:
                part = encoder.start(graph)
            else:
                before = torch.from_numpy(hidden[seen.nodes])
                part = encoder.hop(number - 1, before, *encoder.edges(graph))[: block.size]
            if values is None:
                shape = (self.nodes, part.shape[1])
                values = np.lib.format.open_memmap(paths[number], mode="w+", dtype=np.float32, shape=shape)
            values[block[0] : block[-1] + 1] = part.numpy()

    def _blocks(self) -> Iterator[NDArray[np.int64]]:
        """All nodes in order, in blocks of at most ``BLOCK_NODES`` and ``BLOCK_TIES``, or one node with more ties."""
        start, first = self.adjacency.start, 0
        while first < self.nodes:
            end = int(np.searchsorted(start, start[first] + BLOCK_TIES, side="right")) - 1
            end = min(max(end, first + 1), first + BLOCK_NODES, self.nodes)
            yield np.arange(first, end)
            first = end

    def _node_features(self, nodes: NDArray[np.int64]) -> tuple[dict[Side, Tensor], Tensor]:
        """Standardised features of each side, zeros where a node is not of it, and which sides nodes are of."""
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


class NodeEmbeddings:
    """Embeddings of all nodes of the graph that was last asked for; copies of a model share them."""

    def __init__(self) -> None:
        self._of: tuple[list[GraphSnapshot], bytes] | None = None
        self._found = torch.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeEmbeddings:
        return self

    def of(self, snapshots: Sequence[GraphSnapshot], scaling: InputScaling, encoder: GraphEncoder) -> Tensor:
        """Embeddings (N, WIDTH), computed anew where snapshots or weights are not those of the last call."""
        found = hashlib.sha256()
        for weights in encoder.state_dict().values():
            found.update(weights.numpy().tobytes())
        before, digest = self._of, found.digest()
        same = before is not None and digest == before[1] and len(snapshots) == len(before[0])
        if before is None or not same or any(a is not b for a, b in zip(snapshots, before[0], strict=True)):
            self._of, self._found = None, torch.empty(0)
            self._found = ModelGraph(snapshots, scaling).embed(encoder)
            self._of = list(snapshots), digest
        return self._found
