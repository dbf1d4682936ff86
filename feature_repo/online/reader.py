"""Reading embeddings and features while decisions wait."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feature_repo.columns import Profiles
from feature_repo.definitions import decision_service
from feature_repo.names import account_view, columns_field, computed_field, entity_key, model_field, vector_field
from feature_repo.online.lookup import BATCH, STORE_FAILURES, look_up, numbers, require_file, texts
from feature_repo.store import is_file, open_store, store_columns
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, NotFound, Unavailable

_NOBODY = ""


class OnlineReader:
    """Reads the online store of one feature repository, for one model.

    May be used from several threads: reads of Redis run side by side, those of sqlite, whose one
    connection they share, take turns. A read never blocks for longer than the store's timeout.

    model_version  the model whose embeddings are read
    widths         side → length D of what is stored of an account
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model_version: str | None = None,
        widths: Mapping[Side, int] | None = None,
    ) -> None:
        """Open the store and read once, so that what Feast loads lazily is loaded.

        Args:
            path: folder of the feature repository.
            model_version: the model that decides. Embeddings of another model mean nothing to it, so
                they count as unknown. The newest one registered when not given.
            widths: of the model, where they are not those that the store was made with.

        Raises:
            NotFound: the model is not registered.
            Unavailable: the store is not there or does not answer.
        """
        self._store = open_store(path)
        require_file(self._store)
        columns = store_columns(self._store)
        self.model_version = model_version or columns.newest_model
        if self.model_version not in columns.model_versions:
            raise NotFound(
                f"feature store {self._store.repo_path}: model {self.model_version!r} is not registered; "
                "`shadowprice job register` registers it"
            )
        self.widths = {side: (widths or {}).get(side, columns.embedding_width) for side in columns.sides}
        self._lock: AbstractContextManager[Any] = Lock() if is_file(self._store.config.online_store) else nullcontext()
        try:
            self._services: dict[Side, Any] = {
                side: self._store.get_feature_service(decision_service(side, self.model_version))
                for side in columns.sides
            }
        except STORE_FAILURES as error:
            raise Unavailable(f"feature store {self._store.repo_path}: registry cannot be read: {error}") from error
        for side in columns.sides:
            self.embeddings(side, [_NOBODY])

    def embeddings(self, side: Side, account_ids: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Embeddings of accounts, in their order; identifiers may repeat.

        One call of the store per 10,000 accounts. Feast does not apply a time to live to online
        reads: the caller judges the age.

        Returns:
            Z float32 (n, D) and the times they were computed, float64 (n,) unix seconds (UTC); both
            NaN where the store has no embedding of this account by this model.

        Raises:
            InvalidInput: the store has no such side.
            Unavailable: the store cannot be read.
        """
        if side not in self._services:
            raise InvalidInput(f"the feature store has no accounts of side {side!r}", field="side")
        width = self.widths[side]
        matrix = np.full((len(account_ids), width), np.nan, dtype=np.float32)
        computed_at = np.full(len(account_ids), np.nan)
        for start in range(0, len(account_ids), BATCH):
            part = slice(start, start + BATCH)
            with self._lock:
                values = look_up(self._store, self._services[side], entity_key(side), account_ids[part])
            models = texts(values[model_field(side)])
            known = np.array([model == self.model_version for model in models], dtype=bool)
            vectors = [
                value.float_list_val.val for value, own in zip(values[vector_field(side)], known, strict=True) if own
            ]
            if any(len(vector) != width for vector in vectors):
                raise Unavailable(f"{side} embeddings of model {self.model_version} are not {width} long")
            matrix[part][known] = np.array(vectors, dtype=np.float32).reshape(-1, width)
            computed_at[part] = np.where(known, numbers(values[computed_field(side)]), np.nan)
        return matrix, computed_at

    def profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        """Newest features of accounts, in their order; identifiers may repeat.

        Args:
            side: of the accounts.
            account_ids: n identifiers.
            names: columns to read, x_…, c_… and h_…; one that the store does not have is unknown.

        Raises:
            InvalidInput: the store has no such side.
            Unavailable: the store cannot be read.
        """
        if side not in self._services:
            raise InvalidInput(f"the feature store has no accounts of side {side!r}", field="side")
        feature, profile_texts = columns_field(side), list[str | None]()
        for start in range(0, len(account_ids), BATCH):
            part = account_ids[start : start + BATCH]
            with self._lock:
                values = look_up(self._store, [f"{account_view(side)}:{feature}"], entity_key(side), part)
            profile_texts += texts(values[feature])
        return Profiles.of(profile_texts, names)
