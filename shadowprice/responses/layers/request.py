"""Embedding of requests from the stored vectors of their accounts: one definition for the solve and the predictor.

The stored vector of an account is the embedding (D,) of its stored request; where its side has a request tower, its own
embedding (D,) stands behind that. Numpy only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.limits.coverage import other_side
from shadowprice.responses.layers.tower import ServedTower


class Vectors(NamedTuple):
    """Stored vectors of n accounts.

    matrix    float32 (n, D or 2D)
    informed  bool (n,), whether a vector is the account's own and not the default of its side
    """

    matrix: NDArray[np.float32]
    informed: NDArray[np.bool_]


def account_vectors(
    stored: NDArray[np.float32],
    known: NDArray[np.bool_],
    default: NDArray[np.float32],
    encoded: NDArray[np.float32] | None = None,
) -> Vectors:
    """Return the vectors of n accounts: as stored, else encoded from their own features, else the default.

    Args:
        stored: (n, W); any numbers of an account that is not known.
        known: bool (n,).
        default: (W,).
        encoded: (m, W) of the accounts that are not known, in their order; NaN where their features are not known.
    """
    if known.all():
        return Vectors(stored, known)
    matrix, informed = np.where(known[:, None], stored, default).astype(np.float32, copy=False), known
    if encoded is not None:
        has, informed = np.isfinite(encoded).all(axis=1), known.copy()
        informed[~known] = has
        matrix[informed & ~known] = encoded[has]
    return Vectors(matrix, informed)


def reads_partners(
    tower: ServedTower | None, side: Side, heads: Collection[str], partner_id: Sequence[str]
) -> NDArray[np.bool_]:
    """bool (n,): requests of a side whose partner is read; accounts of a side without a head have no stored vector."""
    reads = tower is not None and tower.partner and other_side(side) in heads
    return np.array([reads and bool(name) for name in partner_id], dtype=np.bool_)


def embed_requests(
    tower: ServedTower | None,
    accounts: NDArray[np.float32],
    context: Mapping[str, Sequence[Any]],
    named: NDArray[np.bool_],
    partners: Vectors | None,
) -> NDArray[np.float32]:
    """Return the embeddings (n, D) of n requests of one side; a row depends on no other.

    Args:
        tower: of the side; None: the stored vector is the embedding of every request.
        accounts: (n, W), vectors of the accounts (:func:`account_vectors`).
        context: name → n values, None where a request has none.
        named: bool (n,), requests whose partner is read (:func:`reads_partners`).
        partners: vectors of these partners, in order; None where there are none. One without information counts as
            no partner.
    """
    if tower is None:
        return accounts
    beside = np.zeros((len(accounts), tower.width), dtype=np.float32)
    if partners is not None:
        own = partners.matrix[:, -tower.width :]
        beside[named] = np.where(partners.informed[:, None], own, np.float32(0.0))
    return tower.join(accounts, context, beside, named)
