"""From snapshots and frames to what a network reads: standardized graph tensors and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import refuse_rows, require
from shadowprice.curves import AMOUNT
from shadowprice.documents import Plain
from shadowprice.graphs.build import numeric_features
from shadowprice.graphs.categories import texts
from shadowprice.graphs.scaling import Scaling, fit_scaling
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.base import RESERVED
from shadowprice.responses.joint.network import Rows
from shadowprice.responses.layers.tower import column_of, context_values
from shadowprice.responses.weights import given_weights

MOST_FITTED = 1 << 19
"""Accounts or ties that the standardization is fitted on."""
INTERACTIONS = "h_"
"""Prefix of the historical interaction aggregates, which only DNN-H reads."""


@dataclass(frozen=True, eq=False)
class InputScaling(Plain):
    """Standardization of every input of a network: node features and context per side, edge features."""

    node: Mapping[Side, Scaling]
    edge: Scaling
    context: Mapping[Side, Scaling]


def _some(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most :data:`MOST_FITTED` of them, at equal distances."""
    return nodes[:: -(-nodes.size // MOST_FITTED) or 1]


def context_matrix(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Names and values (n, C) of the request features among ``columns``."""
    table = numeric_features(frame[list(columns)])
    return tuple(table.columns), table.to_numpy(dtype=np.float32).reshape(len(frame), -1)


def request_values(frame: pd.DataFrame, names: Sequence[str]) -> NDArray[np.float32]:
    """Values (n, C) of the fitted request features ``names`` of a frame, NaN where it lacks the column."""
    columns = {
        name: frame[name].to_numpy(dtype=np.float32, na_value=np.nan) if name.startswith("x_") else texts(frame[name])
        for name in dict.fromkeys(map(column_of, names))
        if name in frame
    }
    return context_values(columns, len(frame), names)


def fit_inputs(
    snapshots: Sequence[GraphSnapshot],
    frames: Mapping[Side, pd.DataFrame],
    context: Mapping[Side, Sequence[str]],
    *,
    interactions: bool,
) -> InputScaling:
    """Fit the standardization on the training snapshots and the training rows alone.

    Of more than :data:`MOST_FITTED` accounts or ties of a snapshot so many are read, at equal distances.
    """
    node: dict[Side, Scaling] = {}
    for position, side in enumerate(SIDES):
        names = tuple(
            dict.fromkeys(
                name
                for snapshot in snapshots
                for name in snapshot.names[side]
                if interactions or not name.startswith(INTERACTIONS)
            )
        )
        blocks = [columns_of(graph, side, names, _some(np.flatnonzero(graph.is_side[position]))) for graph in snapshots]
        node[side] = fit_scaling(names, np.concatenate(blocks) if blocks else np.zeros((0, len(names)), np.float32))
    edge = fit_scaling(
        snapshots[0].edge_names,
        np.concatenate([graph.edge_features[_some(np.arange(graph.edges))] for graph in snapshots]),
    )
    return InputScaling(
        node, edge, {side: fit_scaling(*context_matrix(frame, context.get(side, ()))) for side, frame in frames.items()}
    )


def request_rows(
    frame: pd.DataFrame,
    snapshots: Sequence[GraphSnapshot],
    scaling: InputScaling,
    side: Side,
) -> Rows:
    """Rows of a frame with account_id and, as it has them, partner_id, snapshot_at, level, response and weights.

    A row refers to its account in the latest snapshot at or before ``snapshot_at`` (unix seconds);
    without that column, in the last snapshot. Rows whose account no snapshot knows are refused.
    """
    node, partner = _nodes(frame, snapshots)

    def column(name: str, default: float) -> NDArray[np.float32]:
        if name in frame:
            return frame[name].to_numpy(dtype=np.float32)
        return np.full(len(frame), default, dtype=np.float32)

    return Rows(
        node=node,
        partner=np.full(len(frame), -1, dtype=np.int64) if partner is None else partner,
        context=scaling.context[side].apply(request_values(frame, scaling.context[side].names)),
        level=frame["level"].to_numpy(dtype=np.int64) if "level" in frame else np.zeros(len(frame), dtype=np.int64),
        response=column("response", 0.0),
        amount=np.nan_to_num(column(AMOUNT, 0.0)),
        weight=given_weights(frame).astype(np.float32),
    )


def with_features(frame: pd.DataFrame, snapshots: Sequence[GraphSnapshot], side: Side) -> pd.DataFrame:
    """The frame with the features (x_*, h_*) its accounts had in the snapshot each row sees, as numbers.

    Features of a partner that the request names follow as x_partner_* and h_partner_*. An indicator of a category is
    named x_<column>=<value>. Columns that are neither label, context nor feature are left out.

    Raises:
        InvalidInput: a row's account has no profile at the time.
    """
    kept = [column for column in frame.columns if column in RESERVED or column.startswith(("x_", "h_", "c_"))]
    if not snapshots:
        return frame[kept]
    node, partner = _nodes(frame, snapshots)
    names = tuple(dict.fromkeys(name for snapshot in snapshots for name in snapshot.names[side]))
    tables = [_profiles(snapshots, side, names, node, frame.index)] if names else []
    if partner is not None:
        other: Side = "merchant" if side == "customer" else "customer"
        theirs = tuple(dict.fromkeys(name for snapshot in snapshots for name in snapshot.names[other]))
        if theirs:
            partners = _profiles(snapshots, other, theirs, partner, frame.index)
            tables.append(partners.rename(columns=lambda name: f"{name[:2]}partner_{name[2:]}"))
    if not tables:
        return frame[kept]
    context = [column for column in kept if all(column not in table.columns for table in tables)]
    return pd.concat([frame[context], *tables], axis=1)


def _profiles(
    snapshots: Sequence[GraphSnapshot],
    side: Side,
    names: tuple[str, ...],
    node: NDArray[np.int64],
    index: pd.Index[Any],
) -> pd.DataFrame:
    """The named features of nodes (n,), NaN where there is no node; an indicator c_<column>=<value> becomes x_…"""
    values = np.full((node.size, len(names)), np.nan, dtype=np.float32)
    offset = 0
    for snapshot in snapshots:
        rows = (node >= offset) & (node < offset + snapshot.nodes)
        values[rows] = columns_of(snapshot, side, names, node[rows] - offset)
        offset += snapshot.nodes
    return pd.DataFrame(values, columns=[f"x_{n}" if n.startswith("c_") else n for n in names], index=index)


def _nodes(
    frame: pd.DataFrame, snapshots: Sequence[GraphSnapshot]
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Node of each row's account, and of its partner, −1 where unknown; None where no row names a partner."""
    which = _which(frame, snapshots)
    node = _locate(frame["account_id"], which, snapshots)
    refuse_rows("account_id", node < 0, "accounts without a profile at the time of the request")
    named = "partner_id" in frame and frame["partner_id"].notna().any()
    return node, _locate(texts(frame["partner_id"]).fillna(""), which, snapshots) if named else None


def _which(frame: pd.DataFrame, snapshots: Sequence[GraphSnapshot]) -> NDArray[np.int64]:
    if "snapshot_at" not in frame:
        return np.full(len(frame), len(snapshots) - 1, dtype=np.int64)
    # Pandas would read times as nanoseconds, after every snapshot.
    seconds = is_numeric_dtype(frame["snapshot_at"]) or frame["snapshot_at"].isna().all()
    require(seconds, "snapshot_at", "must be unix seconds, a number")
    times = np.array([snapshot.at.timestamp() for snapshot in snapshots])
    require((np.diff(times) > 0).all(), "snapshots", "must be in order of time")
    wanted = frame["snapshot_at"].to_numpy(dtype=np.float64)
    return np.asarray(np.searchsorted(times, np.nan_to_num(wanted, nan=-np.inf), side="right") - 1, dtype=np.int64)


def _locate(account_id: pd.Series, which: NDArray[np.int64], snapshots: Sequence[GraphSnapshot]) -> NDArray[np.int64]:
    node = np.full(len(account_id), -1, dtype=np.int64)
    offset = 0
    for number, snapshot in enumerate(snapshots):
        rows = which == number
        nodes = snapshot.find(account_id[rows])
        node[rows] = np.where(nodes >= 0, nodes + offset, -1)
        offset += snapshot.nodes
    return node


def columns_of(
    snapshot: GraphSnapshot, side: Side, names: tuple[str, ...], nodes: NDArray[np.integer] | slice
) -> NDArray[np.float32]:
    """(n, len(names)) of some nodes.

    NaN where unknown; a value of a category that the snapshot knows by others is absent.
    """
    raw = snapshot.features[side]
    if names == snapshot.names[side]:
        return np.asarray(raw[nodes])
    place = {name: position for position, name in enumerate(snapshot.names[side])}
    categories = {name.partition("=")[0]: position for name, position in place.items() if name.startswith("c_")}
    matrix = np.full((snapshot.is_side[0, nodes].size, len(names)), np.nan, dtype=np.float32)
    for position, name in enumerate(names):
        if name in place:
            matrix[:, position] = raw[nodes, place[name]]
        elif name.startswith("c_") and (other := categories.get(name.partition("=")[0])) is not None:
            matrix[:, position] = 0.0 * raw[nodes, other]
    return matrix
