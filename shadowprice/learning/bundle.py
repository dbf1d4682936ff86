"""The model bundle: what the server, the solver and the feature store read after training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import whole_file, write_whole
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.integrity import OFFERS, file_digests
from shadowprice.responses.layers.heads import FILE as HEADS_FILE
from shadowprice.responses.layers.heads import Head, save_heads
from shadowprice.responses.layers.own import ServedEncoder, save_encoders
from shadowprice.responses.layers.tower import FILE as TOWERS_FILE
from shadowprice.responses.layers.tower import Tower, save_towers
from shadowprice.responses.sided import SidedModel

if TYPE_CHECKING:
    # A server, which reads bundles, has no scipy.
    from shadowprice.evaluation.statistics.intervals import Estimate
    from shadowprice.responses.posterior import CurvePosterior

EMBEDDINGS = "embeddings.parquet"
META = "model.json"
"""Manifest: version, files with their digests, figures of training and, once registered, the gate's verdict."""
LONG_TERM = "long_term"
"""Key in it: figures of the surrogate index that amounts are."""
SPEND = "spend"
"""Field of the manifest with the spend of the model's policy by held-out rows, which its evaluation found."""
OUTCOMES = "outcomes"
"""Field of the manifest with value, low and high end of the 95 % interval of each second outcome at each level."""
POSTERIOR = "posterior"
"""Field of the manifest with the :class:`~shadowprice.responses.posterior.CurvePosterior` of each side."""
ROWS = 1 << 16
"""Embeddings of one row group, which never holds two sides."""


@dataclass(frozen=True, eq=False)
class Served:
    """Served parts of one side.

    embedding  (n, WIDTH), of each account's current request
    head       response head, which reads the embedding
    own, tower (n, P) of each account alone, WIDTH or what a session is read with, and the layers that join it with a
               request; None where a model has no such layers
    """

    account_id: NDArray[np.str_]
    embedding: NDArray[np.float32]
    head: Head
    own: NDArray[np.float32] | None = None
    tower: Tower | None = None


class OfSides(NamedTuple):
    """Figures of a side's log that hold for all its accounts.

    amounts  side → :func:`shadowprice.learning.amounts.fitted_amounts`, for sides whose heads know none
    guards   side → :func:`shadowprice.learning.guards.fitted_guards`
    posterior  side → law of the errors of its curves
    """

    amounts: Mapping[Side, NDArray[np.float32]]
    guards: Mapping[Side, Mapping[str, Sequence[Estimate]]]
    posterior: Mapping[Side, CurvePosterior] = {}


def write_bundle(
    model: SidedModel,
    data: TrainingSet,
    folder: Path,
    *,
    recipe: str,
    corrections: Mapping[Side, float],
    metrics: Mapping[str, Any],
    label_rates: Mapping[Side, Any] | None = None,
    of_sides: OfSides | None = None,
) -> str:
    """Write the bundle of a trained model into ``folder`` and return its version.

    network.safetensors, or a folder per side   the whole model, to embed accounts again later
    heads.safetensors, model.json               the response heads, for a server without torch
    towers.safetensors                          layers that read a request's context and partner, or its session, where
                                                the model does
    encoders.safetensors                        layers for an account without an embedding, where the model has them
    embeddings.parquet                          account_id, side, computed_at, embedding of every account served,
                                                and with towers ``own``, that of the account alone

    ``label_rates`` are those of :func:`shadowprice.learning.fit.label_rates`, or None; ``of_sides`` is in the heads,
    and the intervals of its second outcomes and the laws of its curves in the manifest.

    The version is a digest of the heads and the served embeddings: the same training gives the same version.
    """
    model.save(folder)
    embedded = model.embed_parts(data.inputs, data.serving)
    heads = model.heads({side: entry.request for side, entry in embedded.items()})
    amounts, guards, posterior = of_sides or OfSides({}, {})
    heads = {side: _knowing(head, amounts.get(side), guards.get(side, {})) for side, head in heads.items()}
    served = {
        side: Served(
            data.serving[side]["account_id"].to_numpy(dtype=str),
            embedding.request,
            heads[side],
            embedding.own,
            embedding.tower,
        )
        for side, embedding in embedded.items()
    }
    describe = dict(model.describe()) | ({} if label_rates is None else {"labels": dict(label_rates)})
    describe["data_sha256"] = data.digest()
    if any(guards.values()):
        bounds = {
            side: {name: [[each.value, each.low, each.high] for each in means] for name, means in found.items()}
            for side, found in guards.items()
        }
        describe[OUTCOMES] = bounds
    describe |= {LONG_TERM: dict(data.long_term)} if data.long_term else {}
    describe |= {POSTERIOR: {side: law.to_dict() for side, law in posterior.items()}} if posterior else {}
    describe |= {OFFERS: {side: list(names) for side, names in data.offers.items()}} if data.offers else {}
    return write_served(
        served,
        folder,
        recipe=recipe,
        describe=describe,
        corrections=corrections,
        metrics=metrics,
        encoders=model.encoders(),
    )


def _knowing(head: Head, amounts: NDArray[np.float32] | None, guards: Mapping[str, Sequence[Estimate]]) -> Head:
    """Return the head with the amounts (2,) of its side, where it knows none, and its second outcomes."""
    if guards:
        means = {name: np.array([each.value for each in levels]) for name, levels in guards.items()}
        head = cast(Head, replace(cast(Any, head), guards=means))
    if amounts is None or head.amounts(head.default_embedding[None]) is not None:
        return head
    return cast(Head, replace(cast(Any, head), side_amounts=amounts))


def write_served(
    served: Mapping[Side, Served],
    folder: Path,
    *,
    recipe: str,
    describe: Mapping[str, Any],
    corrections: Mapping[Side, float],
    metrics: Mapping[str, Any],
    encoders: Mapping[Side, ServedEncoder] | None = None,
) -> str:
    """Write the served parts of a model: every file of :func:`write_bundle` but the model itself.

    Embeddings are written by row groups of 65,536 accounts: memory beyond ``served`` holds one group.
    All sides have embeddings of one width, and own ones of one width.
    """
    computed_at = datetime.now(UTC)
    save_heads({side: entry.head for side, entry in served.items()}, folder)
    towers = {side: entry.tower for side, entry in served.items() if entry.tower is not None}
    save_towers(towers, folder)
    save_encoders(encoders or {}, folder)
    digest = hashlib.sha256((folder / HEADS_FILE).read_bytes())
    if towers:
        digest.update((folder / TOWERS_FILE).read_bytes())
    write_embeddings(served, folder / EMBEDDINGS, own=bool(towers), computed_at=computed_at, digest=digest)
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
    write_whole(folder / META, json.dumps(meta, indent=1, sort_keys=True))
    return version


def write_embeddings(
    served: Mapping[Side, Served],
    path: Path,
    *,
    own: bool,
    computed_at: datetime | None = None,
    digest: Any = None,
) -> None:
    """Write account_id, side, computed_at and embedding of each account, and with ``own`` its own embedding.

    ``own`` is empty on a side without one. The time defaults to now; ``digest`` is updated with all numbers.
    """
    (width,) = {entry.embedding.shape[1] for entry in served.values()}
    (own_width,) = {entry.own.shape[1] for entry in served.values() if entry.own is not None} or {width}
    schema = pa.schema(
        {
            "account_id": pa.string(),
            "side": pa.string(),
            "computed_at": pa.timestamp("us", tz="UTC"),
            "embedding": pa.list_(pa.float32(), width),
            **({"own": pa.list_(pa.float32(), own_width)} if own else {}),
        }
    )
    at, digest = computed_at or datetime.now(UTC), digest or hashlib.sha256()

    def vectors(matrix: NDArray[np.float32]) -> pa.Array:
        values = np.ascontiguousarray(matrix, dtype=np.float32)
        digest.update(values.tobytes())
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])

    # A registered model may share the file: it is replaced, never written into.
    with whole_file(path) as draft, pq.ParquetWriter(draft, schema) as table:
        for side, entry in served.items():
            for start in range(0, len(entry.account_id), ROWS):
                part = slice(start, start + ROWS)
                names = entry.account_id[part]
                columns = [
                    pa.array(names.tolist(), pa.string()),
                    pa.array([side] * len(names), pa.string()),
                    pa.array([at] * len(names), schema.field("computed_at").type),
                    vectors(entry.embedding[part]),
                ]
                if own:
                    missing = pa.nulls(len(names), schema.field("own").type)
                    columns.append(missing if entry.own is None else vectors(entry.own[part]))
                table.write_table(pa.Table.from_arrays(columns, schema=schema))


def read_meta(folder: Path) -> dict[str, Any]:
    """Read the manifest of the bundle in ``folder``, or raise :class:`NotFound` or :class:`InvalidInput`."""
    path = folder / META
    if not path.exists():
        raise NotFound(f"no model bundle in {folder}; run `shadowprice job train` first")
    try:
        meta: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}; train or copy the model again", field=str(path)) from error
    return meta


def version_in(folder: str | Path) -> dict[str, str]:
    """Return the ``model_version`` of the bundle in ``folder``; an empty mapping where that model is not served."""
    place = Path(folder)
    return {"model_version": read_meta(place)["model_version"]} if (place / META).exists() else {}
