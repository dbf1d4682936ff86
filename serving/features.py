"""Embeddings of accounts from the online store, with the fallback for those it does not know."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from serving.recent import Recent
from shadowprice.campaign import Side

logger = logging.getLogger("serving")

ReaderName = Literal["sdk", "packed"]
REMEMBERED = 50_000
"""Accounts of one generation of the memory."""


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
    failed       whether the store did not answer, so that accounts not remembered count as unknown
    """

    matrix: NDArray[np.float32]
    known: NDArray[np.bool_]
    computed_at: NDArray[np.float64]
    failed: bool

    def take(self, index: NDArray[np.intp]) -> Embeddings:
        """Those of the accounts at ``index``."""
        return Embeddings(self.matrix[index], self.known[index], self.computed_at[index], self.failed)


class Features:
    """Reads embeddings and never fails: what cannot be read is replaced by the default.

    default          side → float32 (D,), the embedding of an account nothing is known of
    cache_seconds    how long an embedding that was read is used without asking the store; 0: not at all
    max_age_seconds  an embedding computed longer ago counts as unknown, remembered or not. Feast does not
                     apply a time to live to online reads.
    """

    def __init__(
        self,
        reader: EmbeddingReader,
        default: Mapping[Side, NDArray[np.float32]],
        *,
        cache_seconds: float = 0.0,
        max_age_seconds: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._default = default
        self._max_age = max_age_seconds
        self._clock = clock
        self._recent: Recent[tuple[NDArray[np.float32], float]] | None = (
            Recent(cache_seconds, REMEMBERED) if cache_seconds > 0 else None
        )
        self._complained = -np.inf

    def remembered(self, side: Side, account_ids: Sequence[str]) -> Embeddings | None:
        """What :meth:`read` would give, where nobody must be waited for: all are remembered."""
        now = self._clock()
        if self._recent is None or any(self._recent.get((side, name), now) is None for name in account_ids):
            return None
        return self.read(side, account_ids)

    def read(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Embeddings of ``account_ids``, which may repeat; each account is read once."""
        now = self._clock()
        unique = list(dict.fromkeys(account_ids))
        matrix, computed_at, failed = self._look_up(side, unique, now)
        default = self._default[side]
        known: NDArray[np.bool_] = np.isfinite(matrix).all(axis=1) & (now - computed_at <= self._max_age)
        if not known.all():
            matrix = np.where(known[:, None], matrix, default).astype(np.float32, copy=False)
            computed_at = np.where(known, computed_at, np.nan)
        if len(unique) < len(account_ids):
            place = {name: row for row, name in enumerate(unique)}
            rows = [place[name] for name in account_ids]
            matrix, known, computed_at = matrix[rows], known[rows], computed_at[rows]
        return Embeddings(matrix, known, computed_at, failed)

    def _look_up(
        self, side: Side, names: list[str], now: float
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], bool]:
        """Embeddings and times of accounts, NaN where unknown, and whether the store failed."""
        if self._recent is None:
            return self._from_store(side, names)
        kept = [self._recent.get((side, name), now) for name in names]
        missing = [row for row, value in enumerate(kept) if value is None]
        if len(missing) == len(names):
            matrix, computed_at, failed = self._from_store(side, names)
        else:
            matrix = np.full((len(names), self._default[side].size), np.nan, dtype=np.float32)
            computed_at, failed = np.full(len(names), np.nan), False
            for row, value in enumerate(kept):
                if value is not None:
                    matrix[row], computed_at[row] = value
            if missing:
                matrix[missing], computed_at[missing], failed = self._from_store(side, [names[row] for row in missing])
        for row in missing:
            if computed_at[row] == computed_at[row]:  # known
                self._recent.put((side, names[row]), (matrix[row].copy(), float(computed_at[row])), now)
        return matrix, computed_at, failed

    def _from_store(self, side: Side, names: list[str]) -> tuple[NDArray[np.float32], NDArray[np.float64], bool]:
        shape = len(names), self._default[side].size
        try:
            matrix, computed_at = self._reader.embeddings(side, names)
            if matrix.shape != shape:
                raise ValueError(f"embeddings have shape {matrix.shape}, the model needs {shape}")
        except Exception:  # a feature store fails in its own ways, and none of them may stop the answers
            self._complain()
            return np.full(shape, np.nan, dtype=np.float32), np.full(shape[0], np.nan), True
        return matrix, computed_at, False

    def _complain(self) -> None:
        # Once a second at most: the store may be down for thousands of requests.
        if time.monotonic() - self._complained >= 1.0:
            self._complained = time.monotonic()
            logger.exception("the feature store does not answer; deciding with the default embedding")


def open_reader(folder: Path, model_version: str, name: ReaderName = "sdk") -> EmbeddingReader:
    """Embeddings that ``model_version`` computed, from the online store of a Feast repository.

    ``sdk`` reads any store through Feast, which is imported here and not with this module: it takes
    seconds, in which the service already tells that it is not ready. ``packed`` reads Redis without Feast.
    """
    if name == "packed":
        from feature_repo.packed import PackedReader

        return PackedReader(folder, model_version)
    from feature_repo.online import OnlineReader

    return OnlineReader(folder, model_version)
