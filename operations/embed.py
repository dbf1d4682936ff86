"""Embed accounts that came after the training of the model that is served."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from feature_repo.online import publish_embeddings
from feature_repo.online.profiles import publish_profiles
from feature_repo.store import open_store
from operations.common.disk import require_space
from operations.common.job import Job, reads, required, write_figures, writes
from operations.common.workspace import FEATURES, MODEL
from operations.register import space_of
from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.learning.bundle import EMBEDDINGS, Served, read_meta, write_embeddings
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.integrity import OFFERS
from shadowprice.responses.layers.heads import load_heads
from shadowprice.responses.layers.tower import load_towers
from shadowprice.responses.sided import load_sided
from shadowprice.tables.database import parquet_parts


@dataclass(frozen=True, kw_only=True)
class EmbedJob(Job):
    """Compute and publish embeddings of accounts that the served model has none of; no weight is trained.

    An account without an embedding is decided on its own features where the feature store has them, else on the mean
    of all accounts (reason ``cold_start``). The encoder needs only an account's features and ties, so a new account is
    embedded from newer tables. Accounts that the model was published with keep their embeddings, on which its prices
    are solved. The newest features of all accounts are published too.
    """

    training: Path = reads("folder of the training set of newer tables, as featurize writes it")
    workspace: Path = required("folder with the model that is served and the feature store")
    figures: Path | None = writes("file with the number of new accounts of each side", optional=True)


def run(job: EmbedJob) -> dict[Side, int]:
    """Embed and publish; an interrupted job is run again.

    Returns:
        side → accounts that were new.

    Raises:
        InvalidInput: the tables have other levels than the model, or an account without a profile.
        NotFound: no model is registered in the workspace.
    """
    folder = (job.workspace / MODEL).resolve()
    meta = read_meta(folder)
    version = str(meta["model_version"])
    require_space(job.workspace, space_of(folder), job.name)
    data, model = TrainingSet.load(job.training), load_sided(folder)
    for side, levels in model.levels.items():
        same = tuple(data.levels.get(side, ())) == tuple(levels)
        same &= list(data.offers.get(side, ())) == meta.get(OFFERS, {}).get(side, [])
        require(same, "levels", f"the tables have other levels of side {side!r} than model {version}; train a new one")
    heads, towers = load_heads(folder), load_towers(folder)
    new = {side: _absent(data.serving[side], folder / EMBEDDINGS, side) for side in heads}
    served: dict[Side, Served] = {}
    rows = {side: frame for side, frame in new.items() if len(frame)}
    for side, embedded in model.embed_parts(data.inputs, rows).items() if rows else ():
        names = rows[side]["account_id"].to_numpy(dtype=str)
        served[side] = Served(names, embedded.request, heads[side], embedded.own, towers.get(side))
    with tempfile.TemporaryDirectory() as draft:
        parts: Iterator[pd.DataFrame] = parquet_parts(folder / EMBEDDINGS)
        if served:
            write_embeddings(served, Path(draft) / EMBEDDINGS, own=bool(towers))
            parts = chain(parts, parquet_parts(Path(draft) / EMBEDDINGS))
        store = open_store(job.workspace / FEATURES)
        publish_profiles(store)
        publish_embeddings(store, parts, version)
    counts = {side: len(frame) for side, frame in new.items()}
    write_figures(job.figures, {f"new {side} accounts": count for side, count in counts.items()})
    return counts


def _absent(serving: pd.DataFrame, embeddings: Path, side: Side) -> pd.DataFrame:
    """Requests of the accounts of a side that a table of embeddings does not have."""
    known = pq.read_table(embeddings, columns=["account_id"], filters=[("side", "=", side)])["account_id"]
    return serving[~np.isin(serving["account_id"].to_numpy(dtype=str), known.to_numpy().astype(str))]
