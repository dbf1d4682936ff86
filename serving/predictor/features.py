"""Embeddings of accounts from the online store, with the fallback for those it does not know."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from feature_repo.names import CONFIG_FILE
from serving.predictor.recent import Recent
from shadowprice.campaign import Side

logger = logging.getLogger("serving")

ReaderName = Literal["auto", "sdk", "packed"]
REMEMBERED = 50_000
"""Accounts of one generation of the memory."""
STORE_SECONDS = 2.0
"""An online store that takes longer counts as one that fails: who waits for it keeps others waiting."""

Read = tuple[NDArray[np.float32], NDArray[np.float64]]
"""Embeddings float32 (n, D) and the unix seconds (n,) they were computed at; NaN where unknown."""


class EmbeddingReader(Protocol):
    """Source of embeddings for several threads; :class:`feature_repo.online.OnlineReader` is the real one."""

    def embeddings(self, side: Side, account_ids: Sequence[str]) -> Read:
        """Embeddings of the accounts in the store, in their order."""


@runtime_checkable
class LoopReader(EmbeddingReader, Protocol):
    """A reader that an event loop can wait for; :class:`feature_repo.packed.PackedReader` is the real one."""

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> Read:
        """Asynchronous ``embeddings``."""


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
        """Embeddings of the accounts at ``index``."""
        return Embeddings(self.matrix[index], self.known[index], self.computed_at[index], self.failed)


Known = tuple[NDArray[np.float32], float]
"""An embedding and when it was computed."""
_Found = tuple[NDArray[np.float32], NDArray[np.float64], bool]
"""As :data:`Read`, and whether the store failed."""


@dataclass(frozen=True)
class _Asked:
    """Accounts of one side; ``names`` has each once, ``kept`` what is remembered of it, ``missing`` who is not."""

    side: Side
    account_ids: Sequence[str]
    names: list[str]
    kept: list[Known | None]
    missing: list[str]
    now: float


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
        self._wait = reader.fetch if isinstance(reader, LoopReader) else partial(_on_a_thread, reader)
        self._default = default
        self._max_age = max_age_seconds
        self._clock = clock
        self._recent: Recent[Known] | None = Recent(cache_seconds, REMEMBERED) if cache_seconds > 0 else None
        self._complained = -np.inf

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Run :meth:`read` on an event loop, for :data:`STORE_SECONDS` at most."""
        asked = self._asked(side, account_ids)
        if not asked.missing:
            return self._complete(asked, None)
        try:
            async with asyncio.timeout(STORE_SECONDS):
                read = await self._wait(side, asked.missing)
            found = self._checked(side, read, len(asked.missing))
        except Exception:  # as in _from_store
            found = self._nothing(side, len(asked.missing))
        return self._complete(asked, found)

    def read(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Embeddings of ``account_ids``, which may repeat; each account is read once. Waits for the store."""
        asked = self._asked(side, account_ids)
        return self._complete(asked, self._from_store(side, asked.missing) if asked.missing else None)

    def _asked(self, side: Side, account_ids: Sequence[str]) -> _Asked:
        now = self._clock()
        names = list(dict.fromkeys(account_ids))
        kept = [None if self._recent is None else self._recent.get((side, name), now) for name in names]
        missing = [name for name, value in zip(names, kept, strict=True) if value is None]
        return _Asked(side, account_ids, names, kept, missing, now)

    def _complete(self, asked: _Asked, found: _Found | None) -> Embeddings:
        """Embeddings kept and found, one for each account, with the default for unknown accounts."""
        side, names, failed = asked.side, asked.names, False
        if found is not None and len(asked.missing) == len(names):
            matrix, computed_at, failed = found
        else:
            matrix = np.empty((len(names), self._default[side].size), dtype=np.float32)
            computed_at = np.empty(len(names))
            for row, value in enumerate(asked.kept):
                if value is not None:
                    matrix[row], computed_at[row] = value
            if found is not None:
                rows = [row for row, value in enumerate(asked.kept) if value is None]
                matrix[rows], computed_at[rows], failed = found
        if found is not None and self._recent is not None:
            for name, vector, at in zip(asked.missing, *found[:2], strict=True):
                if at == at:  # known
                    self._recent.put((side, name), (vector.copy(), float(at)), asked.now)
        known: NDArray[np.bool_] = np.isfinite(matrix).all(axis=1) & (asked.now - computed_at <= self._max_age)
        if not known.all():
            matrix = np.where(known[:, None], matrix, self._default[side]).astype(np.float32, copy=False)
            computed_at = np.where(known, computed_at, np.nan)
        if len(names) < len(asked.account_ids):
            place = {name: row for row, name in enumerate(names)}
            at_row = [place[name] for name in asked.account_ids]
            matrix, known, computed_at = matrix[at_row], known[at_row], computed_at[at_row]
        return Embeddings(matrix, known, computed_at, failed)

    def _from_store(self, side: Side, names: list[str]) -> _Found:
        try:
            return self._checked(side, self._reader.embeddings(side, names), len(names))
        except Exception:  # a feature store fails in its own ways, and none of them may stop the answers
            return self._nothing(side, len(names))

    def _checked(self, side: Side, read: Read, accounts: int) -> _Found:
        matrix, computed_at = read
        shape = accounts, self._default[side].size
        if matrix.shape != shape:
            raise ValueError(f"embeddings have shape {matrix.shape}, the model needs {shape}")
        return matrix, computed_at, False

    def _nothing(self, side: Side, accounts: int) -> _Found:
        """Log why the store could not be read, and return the embeddings in its place."""
        self._complain()
        return np.full((accounts, self._default[side].size), np.nan, np.float32), np.full(accounts, np.nan), True

    def _complain(self) -> None:
        # Once a second at most: the store may be down for thousands of requests.
        if time.monotonic() - self._complained >= 1.0:
            self._complained = time.monotonic()
            logger.exception("the feature store does not answer; deciding with the default embedding")


async def _on_a_thread(reader: EmbeddingReader, side: Side, account_ids: Sequence[str]) -> Read:
    return await asyncio.get_running_loop().run_in_executor(None, reader.embeddings, side, account_ids)


def open_reader(
    folder: Path, model_version: str, name: ReaderName = "auto", widths: Mapping[Side, int] | None = None
) -> EmbeddingReader:
    """Embeddings that ``model_version`` computed, from the online store of a Feast repository.

    ``sdk`` reads any store through Feast, which is imported here and not with this module: the import takes
    seconds, in which the service already answers that it is not ready. ``packed`` reads Redis without Feast.
    ``auto`` is ``packed`` where the store is one Redis, and ``sdk`` elsewhere. ``widths`` are the lengths of what is
    stored of an account of each side.
    """
    if name != "sdk":
        from feature_repo.packed import PackedReader, reads

        if name == "packed" or ((folder / CONFIG_FILE).exists() and reads(folder)):
            return PackedReader(folder, model_version, widths)
    from feature_repo.online import OnlineReader

    return OnlineReader(folder, model_version, widths)
