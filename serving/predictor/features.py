"""Embeddings and features of accounts from the online store, with the fallback for accounts without an embedding."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from feature_repo.columns import Profiles
from feature_repo.names import CONFIG_FILE
from serving.http.limits import MAX_REMEMBERED
from serving.predictor.recent import Recent
from shadowprice.campaign import Side
from shadowprice.responses.layers.own import ServedEncoder
from shadowprice.responses.layers.request import account_vectors
from shadowprice.responses.layers.tower import Tower

logger = logging.getLogger("serving")

ReaderName = Literal["auto", "sdk", "packed"]
STORE_SECONDS = 2.0
"""An online store that takes longer counts as failed, since waiting for it delays other calls."""

Read = tuple[NDArray[np.float32], NDArray[np.float64]]
"""Embeddings float32 (n, D) and the unix seconds (n,) they were computed at; NaN where unknown."""


class EmbeddingReader(Protocol):
    """Source of embeddings for several threads; :class:`feature_repo.online.OnlineReader` is the real one."""

    def embeddings(self, side: Side, account_ids: Sequence[str]) -> Read:
        """Embeddings of the accounts in the store, in their order."""

    def profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        """Newest values of columns of the accounts in the store, in their order."""


@runtime_checkable
class LoopReader(EmbeddingReader, Protocol):
    """A reader that an event loop can wait for; :class:`feature_repo.packed.PackedReader` is the real one."""

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> Read:
        """Asynchronous ``embeddings``."""

    async def fetch_profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        """Asynchronous ``profiles``."""


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of n accounts, complete.

    matrix       float32 (n, D); of an account that the store has no embedding of, the encoding of its own features, or
                 the population's mean where the store has none either
    known        bool (n,), whether the store has an embedding
    computed_at  float64 (n,), unix seconds when the embedding was computed, or the profile taken that was encoded; NaN
                 where neither is known
    failed       whether the store did not answer, so that accounts not remembered count as unknown
    """

    matrix: NDArray[np.float32]
    known: NDArray[np.bool_]
    computed_at: NDArray[np.float64]
    failed: bool

    @property
    def informed(self) -> NDArray[np.bool_]:
        """bool (n,), whether the vector is the account's own and not the mean."""
        return np.isfinite(self.computed_at)

    def take(self, index: NDArray[np.intp]) -> Embeddings:
        """Embeddings of the accounts at ``index``."""
        return Embeddings(self.matrix[index], self.known[index], self.computed_at[index], self.failed)


Known = tuple[NDArray[np.float32], float]
"""An embedding and when it was computed."""
_Found = tuple[NDArray[np.float32], NDArray[np.float64], bool]
"""As :data:`Read`, and whether the store failed."""


@dataclass(frozen=True)
class _Asked:
    """Accounts of one side, each once in ``names``: ``kept`` values, and the ``missing`` accounts."""

    side: Side
    account_ids: Sequence[str]
    names: list[str]
    kept: list[Known | None]
    missing: list[str]
    now: float


class Features:
    """Reads embeddings and never fails: what cannot be read is replaced by the default.

    An account without an embedding costs a second read, that of its features, where the model can encode them.

    default          side → float32 (D,), the embedding of an unknown account
    encoders         side → encodes accounts without an embedding, for its tower; a side that is missing has the default
    cache_seconds    how long an embedding that was read is used without asking the store; 0: not at all
    max_age_seconds  an embedding computed, or a profile taken longer ago counts as unknown, remembered or not. Feast
                     does not apply a time to live to online reads.
    """

    def __init__(
        self,
        reader: EmbeddingReader,
        default: Mapping[Side, NDArray[np.float32]],
        encoders: Mapping[Side, ServedEncoder] = MappingProxyType({}),
        towers: Mapping[Side, Tower] = MappingProxyType({}),
        *,
        cache_seconds: float = 0.0,
        max_age_seconds: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._loop_reader = reader if isinstance(reader, LoopReader) else _OnThreads(reader)
        self._default = default
        self._encoders, self._towers = encoders, towers
        self._max_age = max_age_seconds
        self._clock = clock
        self._recent: Recent[Known] | None = Recent(cache_seconds, MAX_REMEMBERED) if cache_seconds > 0 else None
        self._complained = -np.inf

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Run :meth:`read` on an event loop, for :data:`STORE_SECONDS` at most of each read."""
        asked = self._asked(side, account_ids)
        fetched = None
        if asked.missing:
            try:
                async with asyncio.timeout(STORE_SECONDS):
                    read = await self._loop_reader.fetch(side, asked.missing)
                fetched = self._checked(side, read, len(asked.missing))
            except Exception:  # as in _from_store
                fetched = self._nothing(side, len(asked.missing))
        kept = self._kept(asked, fetched)
        cold = self._cold(asked, kept)
        if not cold:
            return self._complete(asked, kept, None)
        profiles = await self.profiles(side, cold, self._encoders[side].reads)
        return self._complete(asked, replace(kept, failed=profiles is None), profiles)

    def read(self, side: Side, account_ids: Sequence[str]) -> Embeddings:
        """Embeddings of ``account_ids``, which may repeat; each account is read once. Waits for the store."""
        asked = self._asked(side, account_ids)
        kept = self._kept(asked, self._from_store(side, asked.missing) if asked.missing else None)
        cold = self._cold(asked, kept)
        if not cold:
            return self._complete(asked, kept, None)
        try:
            return self._complete(asked, kept, self._reader.profiles(side, cold, self._encoders[side].reads))
        except Exception:  # as in _from_store
            self._complain()
            return self._complete(asked, replace(kept, failed=True), None)

    async def profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles | None:
        """Newest values of columns of accounts, in their order; None where the store does not answer."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                return await self._loop_reader.fetch_profiles(side, account_ids, names)
        except Exception:  # as in _from_store
            self._complain()
            return None

    def _asked(self, side: Side, account_ids: Sequence[str]) -> _Asked:
        now = self._clock()
        names = list(dict.fromkeys(account_ids))
        kept = [None if self._recent is None else self._recent.get((side, name), now) for name in names]
        missing = [name for name, value in zip(names, kept, strict=True) if value is None]
        return _Asked(side, account_ids, names, kept, missing, now)

    def _kept(self, asked: _Asked, found: _Found | None) -> Embeddings:
        """Embeddings remembered and found, one for each account; any numbers where one is not known."""
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
        return Embeddings(
            matrix, self._young(asked, computed_at) & np.isfinite(matrix).all(axis=1), computed_at, failed
        )

    def _young(self, asked: _Asked, at: NDArray[np.float64]) -> NDArray[np.bool_]:
        """bool (n,): times that are known and not too long ago."""
        return np.asarray(asked.now - at <= self._max_age)

    def _cold(self, asked: _Asked, kept: Embeddings) -> list[str]:
        """Accounts whose own features are to be read."""
        if kept.failed or asked.side not in self._encoders or kept.known.all():
            return []
        return [asked.names[row] for row in np.flatnonzero(~kept.known)]

    def _complete(self, asked: _Asked, kept: Embeddings, profiles: Profiles | None) -> Embeddings:
        """Embeddings of all requests, with the encoding of the profiles, and the default for unknown accounts."""
        side, names = asked.side, asked.names
        known, computed_at, encoded = kept.known, kept.computed_at, None
        if profiles is not None:
            n, tower = len(profiles.snapshot_at), self._towers.get(side)
            encoded = self._encoders[side].stored(tower, profiles.columns, n)
            encoded[~self._young(asked, profiles.snapshot_at)] = np.nan
        matrix, informed = account_vectors(kept.matrix, known, self._default[side], encoded)
        if not known.all():
            computed_at = np.where(known, computed_at, np.nan)
            if profiles is not None:
                # A time in the future, such as one in milliseconds, is that of a mistake: the ledger would refuse it.
                taken = np.clip(profiles.snapshot_at, 0.0, asked.now)
                computed_at[~known] = np.where(informed[~known], taken, np.nan)
        if len(names) < len(asked.account_ids):
            place = {name: row for row, name in enumerate(names)}
            at_row = [place[name] for name in asked.account_ids]
            matrix, known, computed_at = matrix[at_row], known[at_row], computed_at[at_row]
        return Embeddings(matrix, known, computed_at, kept.failed)

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
        """Log the failure of the store, and return what stands in for its embeddings."""
        self._complain()
        return np.full((accounts, self._default[side].size), np.nan, np.float32), np.full(accounts, np.nan), True

    def _complain(self) -> None:
        # Once a second at most: the store may be down for thousands of requests.
        if time.monotonic() - self._complained >= 1.0:
            self._complained = time.monotonic()
            logger.exception("the feature store does not answer; deciding with the default embedding")


class _OnThreads:
    """A reader that waits, for an event loop."""

    def __init__(self, reader: EmbeddingReader) -> None:
        self._reader = reader

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> Read:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._reader.embeddings, side, account_ids)

    async def fetch_profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._reader.profiles, side, account_ids, names)


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
