"""Embeddings of accounts from the online store, with the fallback for those it does not know."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side

logger = logging.getLogger("serving")


class EmbeddingReader(Protocol):
    """Where embeddings are read from, by several threads; :class:`feature_repo.online.OnlineReader` is the real one."""

    def embeddings(self, side: Side, account_ids: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Embeddings float32 (n, D) and the unix seconds (n,) they were computed at; NaN where unknown."""


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of n accounts, complete.

    matrix       float32 (n, D); the population's mean where the account is unknown
    known        bool (n,)
    computed_at  float64 (n,), unix seconds; NaN where unknown
    failed       whether the store did not answer, so that every account counts as unknown
    """

    matrix: NDArray[np.float32]
    known: NDArray[np.bool_]
    computed_at: NDArray[np.float64]
    failed: bool


class Features:
    """Reads embeddings and never fails: what cannot be read is replaced by the default.

    default  side → float32 (D,), the embedding of an account nothing is known of
    """

    def __init__(self, reader: EmbeddingReader, default: Mapping[Side, NDArray[np.float32]]) -> None:
        self._reader = reader
        self._default = default
        self._complained = -np.inf

    def read(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Embeddings of ``account_ids``, which may repeat; each account is read once."""
        default = self._default[side]
        unique = list(dict.fromkeys(account_ids))
        try:
            matrix, computed_at = self._reader.embeddings(side, unique)
            if matrix.shape != (len(unique), default.size):
                raise ValueError(f"embeddings have shape {matrix.shape}, the model needs {(len(unique), default.size)}")
        except Exception:  # a feature store fails in its own ways, and none of them may stop the answers
            self._complain()
            nothing = np.full(len(account_ids), np.nan)
            return Embeddings(np.tile(default, (len(account_ids), 1)), np.isfinite(nothing), nothing, True)
        known: NDArray[np.bool_] = np.asarray(np.isfinite(matrix).all(axis=1))
        complete = np.where(known[:, None], matrix, default).astype(np.float32, copy=False)
        times = np.where(known, computed_at, np.nan)
        if len(unique) < len(account_ids):
            place = {name: row for row, name in enumerate(unique)}
            rows = [place[name] for name in account_ids]
            complete, known, times = complete[rows], known[rows], times[rows]
        return Embeddings(complete, known, times, False)

    def _complain(self) -> None:
        # Once a second at most: the store may be down for thousands of requests.
        if time.monotonic() - self._complained >= 1.0:
            self._complained = time.monotonic()
            logger.exception("the feature store does not answer; deciding with the default embedding")


def open_reader(folder: Path, model_version: str) -> EmbeddingReader:
    """Embeddings that ``model_version`` computed, from the online store of a Feast repository.

    Feast is imported here and not with this module: it takes seconds, in which the service already
    tells that it is not ready.
    """
    from feature_repo.online import OnlineReader

    return OnlineReader(folder, model_version)
