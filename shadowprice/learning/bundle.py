"""The model bundle: what the server, the solver and the feature store read after training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.errors import NotFound
from shadowprice.files import write_whole
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import FILE as HEADS_FILE
from shadowprice.responses.layers.heads import Head, save_heads
from shadowprice.responses.sided import SidedModel

EMBEDDINGS = "embeddings.parquet"
ROWS = 1 << 16
"""Embeddings of one row group, which never holds two sides."""


@dataclass(frozen=True, eq=False)
class Served:
    """What is served of one side: the embedding (n, WIDTH) of each account, and the head that reads it."""

    account_id: NDArray[np.str_]
    embedding: NDArray[np.float32]
    head: Head


def write_bundle(
    model: SidedModel,
    data: TrainingSet,
    folder: Path,
    *,
    recipe: str,
    corrections: Mapping[Side, float],
    metrics: Mapping[str, Any],
    label_rates: Mapping[Side, Any] | None = None,
) -> str:
    """Write the bundle of a trained model into ``folder`` and return its version.

    network.safetensors, or a folder per side   the whole model, to embed accounts again later
    heads.safetensors, model.json               the response heads, for a server without torch
    embeddings.parquet                          account_id, side, computed_at, embedding of every account served

    ``label_rates`` are those of :func:`shadowprice.responses.label_rates.label_rates`, or None.

    The version is a digest of the heads and the served embeddings: the same training gives the same version.
    """
    model.save(folder)
    embedded = model.embed(data.snapshots, data.serving)
    heads = model.heads(embedded)
    served = {
        side: Served(data.serving[side]["account_id"].to_numpy(dtype=str), matrix, heads[side])
        for side, matrix in embedded.items()
    }
    describe = dict(model.describe()) | ({} if label_rates is None else {"labels": dict(label_rates)})
    return write_served(served, folder, recipe=recipe, describe=describe, corrections=corrections, metrics=metrics)


def write_served(
    served: Mapping[Side, Served],
    folder: Path,
    *,
    recipe: str,
    describe: Mapping[str, Any],
    corrections: Mapping[Side, float],
    metrics: Mapping[str, Any],
) -> str:
    """Write what is served of a model, everything of :func:`write_bundle` but the model itself.

    Embeddings are written by row groups of 65,536 accounts: the memory beyond ``served`` is that of one group.
    All sides have embeddings of one width.
    """
    computed_at = datetime.now(UTC)
    save_heads({side: each.head for side, each in served.items()}, folder)
    digest = hashlib.sha256((folder / HEADS_FILE).read_bytes())
    (width,) = {each.embedding.shape[1] for each in served.values()}
    schema = pa.schema(
        {
            "account_id": pa.string(),
            "side": pa.string(),
            "computed_at": pa.timestamp("us", tz="UTC"),
            "embedding": pa.list_(pa.float32(), width),
        }
    )
    with pq.ParquetWriter(folder / EMBEDDINGS, schema) as table:
        for side, each in served.items():
            for start in range(0, len(each.account_id), ROWS):
                names = each.account_id[start : start + ROWS]
                part = np.ascontiguousarray(each.embedding[start : start + ROWS], dtype=np.float32)
                digest.update(part.tobytes())
                columns = [
                    pa.array(names.tolist(), pa.string()),
                    pa.array([side] * len(names), pa.string()),
                    pa.array([computed_at] * len(names), schema.field("computed_at").type),
                    pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), width),
                ]
                table.write_table(pa.Table.from_arrays(columns, schema=schema))
    version = f"{recipe}-{digest.hexdigest()[:12]}"
    meta = {
        "model_version": version,
        "files": file_digests(folder),
        "recipe": recipe,
        **describe,
        "trained_at": computed_at.isoformat(),
        "corrections": dict(corrections),
        "metrics": dict(metrics),
    }
    write_whole(folder / "model.json", json.dumps(meta, indent=1, sort_keys=True))
    return version


def read_meta(folder: Path) -> dict[str, Any]:
    """What model.json of the bundle in ``folder`` says, or :class:`NotFound`."""
    path = folder / "model.json"
    if not path.exists():
        raise NotFound(f"no model bundle in {folder}; run the train step first")
    meta: dict[str, Any] = json.loads(path.read_text())
    return meta


def version_in(folder: str | Path) -> dict[str, str]:
    """Return the ``model_version`` of the bundle in ``folder``; nothing where the model there is not served itself."""
    place = Path(folder)
    return {"model_version": read_meta(place)["model_version"]} if (place / "model.json").exists() else {}
