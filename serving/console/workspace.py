"""Facts of a workspace: features and curves of accounts, models that were served, and the headline of its report."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from operations.common.journal import notes
from operations.common.workspace import (
    CANARY_LOG,
    FEATURES,
    POPULATION,
    SERVED_MODELS,
    VERSIONS,
    override_in,
    read_worths,
)
from shadowprice.campaign import Campaign, Side
from shadowprice.campaign.session import SESSION
from shadowprice.documents import read_document
from shadowprice.errors import ShadowpriceError
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.population import ACCOUNTS, RESPONSE
from shadowprice.reports.data import ReportData
from shadowprice.reports.headline import Headline, headline
from shadowprice.reports.stored import FIGURES
from shadowprice.responses.layers.heads import load_heads
from shadowprice.responses.layers.request import embed_requests
from shadowprice.responses.layers.tower import load_towers
from shadowprice.storage import from_json


class Workspace:
    """Reads the files that jobs wrote; what is missing is left out. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[object, Headline | None] = (None, None)

    def models(self) -> list[dict[str, Any]]:
        """Return models, the newest first, with the person who registered each and the one who overrode the gate."""
        noted = [_dated(note) for note in notes(self._folder / SERVED_MODELS)]
        return [version | {"override": override_in(self._folder, version["model_version"])} for version in noted[::-1]]

    def canary_steps(self) -> list[dict[str, Any]]:
        """Return the steps of canaries, the newest first, with the person who ran each."""
        return [_dated(note) for note in notes(self._folder / CANARY_LOG)[::-1]]

    def features(self, side: str, account: str, at: datetime) -> dict[str, Any]:
        """Return the features of an account at a time; empty where none are kept. O(accounts)."""
        values: dict[str, Any] = {}
        for view in ("profile", "interactions"):
            path = self._folder / FEATURES / f"{side}_{view}.parquet"
            if not path.exists():
                continue
            wanted = [(f"{side}_id", "=", account), ("event_timestamp", "<=", at)]
            rows = pq.read_table(path, filters=wanted).sort_by("event_timestamp").to_pylist()
            values |= {name.removeprefix(f"{side}_"): value for name, value in (rows[-1] if rows else {}).items()}
        return {name: value for name, value in values.items() if name not in ("id", "event_timestamp", "snapshot_at")}

    def curve(self, model_version: str, side: Side, account: str, context: str = "") -> NDArray[np.float64] | None:
        """Return the responses (J,) that a model expects of an account; None where they are not kept. O(accounts).

        A session in the ``context`` of the request, as the log has it, moves them.
        """
        if (session := (orjson.loads(context) if context else {}).get(SESSION)) is not None:
            return self._curve_of_session(self._folder / VERSIONS / model_version, side, account, session)
        folder = self._folder / POPULATION / model_version / side
        try:
            place = pc.index(pq.read_table(folder / ACCOUNTS)["account_id"], account).as_py()
            response = np.load(folder / RESPONSE, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            return None
        return None if place < 0 else np.asarray(response[:, place], dtype=np.float64)

    def _curve_of_session(self, model: Path, side: Side, account: str, session: Any) -> NDArray[np.float64] | None:
        try:
            tower, wanted = load_towers(model)[side], [("account_id", "=", account), ("side", "=", side)]
            rows = pq.read_table(model / EMBEDDINGS, columns=["embedding", "own"], filters=wanted).to_pylist()
            heads = load_heads(model)
        except (OSError, KeyError, ShadowpriceError):
            return None
        vectors = np.array([row["embedding"] + row["own"] for row in rows], dtype=np.float32)
        if not len(vectors):
            return None
        embedding = embed_requests(tower, vectors, {SESSION: [session]}, np.zeros(1, dtype=np.bool_), None)
        return np.asarray(heads[side].response(embedding)[:, 0], dtype=np.float64)

    def worth(self, campaign: Campaign, side: Side, account: str) -> NDArray[np.float64] | None:
        """Worth (1,), or (J, 1) by level, of a unit of an account's response; None where all are worth the same.

        Raises:
            InvalidInput: the file that has the column is missing or damaged.

        O(accounts).
        """
        if not campaign.terms(side).worth:
            return None
        return read_worths(campaign, self._folder).worth(SideRequests(side, [account]))

    def influence(self, campaign: Campaign, side: Side, account: str) -> NDArray[np.float64] | None:
        """Value (1,) for an account's partners of a minor unit that it is given; None where none is counted.

        Raises:
            InvalidInput: the file of the campaign is missing or damaged.

        O(accounts).
        """
        if not campaign.terms(side).influence:
            return None
        return read_worths(campaign, self._folder).influence(SideRequests(side, [account]))

    def amounts(self, campaign: Campaign, model_version: str, side: Side) -> NDArray[np.float32] | None:
        """Law (2, J, 1) of the amounts of a side by a model that was served; None where no level is in percent.

        Raises:
            NotFound: the model is not kept.
        """
        if not any(campaign.terms(side).percent):
            return None
        head = load_heads(self._folder / VERSIONS / model_version)[side]
        return head.amounts(head.default_embedding[None])

    def guards(self, campaign: Campaign, model_version: str, side: Side) -> Mapping[str, NDArray[np.float64]]:
        """Second outcomes (:attr:`Curves.guards`) by a model that was served; {} where none is limited.

        Raises:
            NotFound: the model is not kept.
        """
        if not any(limit.outcome for limit in campaign.group_budgets):
            return {}
        return load_heads(self._folder / VERSIONS / model_version)[side].guards

    def headline(self, campaign: Campaign) -> Headline | None:
        """Headline of the report of this campaign's run; None where it had other terms, or cannot be read."""
        path = self._folder / FIGURES
        try:
            state = path.stat().st_mtime_ns
            if self._read[0] != state:
                data = from_json(ReportData, read_document(path))
                self._read = state, headline(data) if _terms(data.campaign) == _terms(campaign) else None
            return self._read[1]
        except (OSError, ShadowpriceError):
            return None


def _terms(campaign: Campaign | None) -> object:
    """Terms that the worth of a policy is of."""
    return campaign and (campaign.name, campaign.sides, campaign.budget)


def _dated(note: dict[str, Any]) -> dict[str, Any]:
    return note | {"at": datetime.fromisoformat(note["at"])}
