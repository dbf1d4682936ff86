"""Embedding of requests from the stored vectors of their accounts: one definition for the solve and the predictor.

The stored vector of an account is the embedding (D,) of its stored request; where its side has a request tower, its own
embedding (D,), or what a session is read with, stands behind that. Numpy only.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.limits.coverage import other_side
from shadowprice.responses.layers.tower import Tower


def account_vectors(
    stored: NDArray[np.float32],
    known: NDArray[np.bool_],
    default: NDArray[np.float32],
    encoded: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the vectors of n accounts: as stored, else encoded from their own features, else the default.

    The second array tells which accounts have one of the first two.

    Args:
        stored: (n, W); any numbers of an account that is not known.
        known: bool (n,).
        default: (W,).
        encoded: (m, W) of the accounts that are not known, in their order; NaN where their features are not known.
    """
    if known.all():
        return stored, known
    matrix, informed = np.where(known[:, None], stored, default).astype(np.float32, copy=False), known
    if encoded is not None:
        has, informed = np.isfinite(encoded).all(axis=1), known.copy()
        informed[~known] = has
        matrix[informed & ~known] = encoded[has]
    return matrix, informed


def reads_partners(
    tower: Tower | None, side: Side, heads: Collection[str], partner_id: Sequence[str]
) -> NDArray[np.bool_]:
    """bool (n,): requests of a side whose partner is read; accounts of a side without a head have no stored vector."""
    if tower is None or not tower.partner or other_side(side) not in heads:
        return np.zeros(len(partner_id), dtype=np.bool_)
    return np.array([bool(name) for name in partner_id], dtype=np.bool_)


def embed_requests(
    tower: Tower | None,
    accounts: NDArray[np.float32],
    context: Mapping[str, Sequence[Any]],
    named: NDArray[np.bool_],
    partners: tuple[NDArray[np.float32], NDArray[np.bool_]] | None,
) -> NDArray[np.float32]:
    """Return the embeddings (n, D) of n requests of a side: the stored one where nothing that its tower reads is given.

    Args:
        tower: of the side; None: the stored vector is the embedding of every request.
        accounts: (n, W), vectors of the accounts (:func:`account_vectors`).
        context: name → n values, None where a request has none.
        named: bool (n,), requests whose partner is read (:func:`reads_partners`).
        partners: their vectors, and which are no default, in order; None without any. A default counts as no partner.
    """
    if tower is None:
        return accounts
    live, columns = named, {name: values for name, values in context.items() if name in tower.accepts}
    for values in columns.values():
        live = live | np.fromiter((value is not None for value in values), np.bool_, len(values))
    rows, matrix = np.flatnonzero(live), accounts[:, : tower.width]
    if not rows.size:
        return matrix
    beside = np.zeros((len(accounts), tower.width), dtype=np.float32)
    if partners is not None:
        vectors, informed = partners
        beside[named] = np.where(informed[:, None], vectors[:, -tower.width :], np.float32(0.0))
    carried = {name: [values[row] for row in rows.tolist()] for name, values in columns.items()}
    matrix = matrix.copy()
    matrix[rows] = tower.join(accounts[rows, tower.width :], carried, beside[rows])
    return matrix
