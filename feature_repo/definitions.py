"""The Feast objects of one data set: entities, feature views, feature services.

| view | entity | features | read by |
|---|---|---|---|
| <side>_profile | customer, merchant | x_*, c_* of the account, snapshot_at | training |
| <side>_interactions | customer, merchant | h_* aggregates of past events | training |
| <side>_account | customer, merchant | the newest of all these columns, as one JSON text | serving |
| <side>_embedding | customer, merchant | vector, when and by which model it was computed | serving |
| campaign_price | campaign | the price record | serving |

Every feature name starts with its view's subject, so names are unique across the views.
"""

from pathlib import Path
from typing import Any

from feature_repo.columns import FeatureColumns, feast_name, read_columns
from feature_repo.names import (
    account_view,
    columns_field,
    computed_field,
    embedding_view,
    entity_key,
    interactions_view,
    model_field,
    profile_view,
    snapshot_field,
    vector_field,
)
from feature_repo.sdk import Array, FileSource, Float32, Float64, Int64, String, feast
from shadowprice.campaign import SIDES, Side

EVENT_TIME = "event_timestamp"

PRICE_VIEW = "campaign_price"
PRICE_RECORD = "price_record"
PRICE_FIELDS: dict[str, Any] = {
    PRICE_RECORD: String,
    "price_version": Int64,
    "price_slot": Int64,
    "price_prices": String,
    "price_tie_share": Float64,
    "price_status": String,
    "price_model_version": String,
    "price_solved_at": String,
    "price_expires_at": String,
    "price_sha256": String,
}


def training_service(side: Side) -> str:
    """Feature service that training rows of a side are joined with."""
    return f"training_{side}"


def decision_service(side: Side, model_version: str) -> str:
    """Feature service that decisions about a side read under one model."""
    return f"decision_{side}_{model_version}"


def source_file(folder: Path, view: str) -> Path:
    """The parquet file behind a view."""
    return folder.resolve() / f"{view}.parquet"


def build(columns: FeatureColumns, folder: Path) -> list[Any]:
    """Every Feast object of a data set whose files lie in ``folder``.

    No view has a time to live: offline, the newest snapshot not after the decision counts however
    old it is; online, Feast does not enforce one, so readers get the time and judge for themselves.
    """
    entities = {
        subject: feast.Entity(
            name=subject,
            join_keys=[entity_key(subject)],
            value_type=feast.ValueType.STRING,
            description=f"A {subject} by its identifier.",
        )
        for subject in (*SIDES, "campaign")
    }
    views: list[Any] = []
    services: list[Any] = []
    for side in columns.sides:
        entity = entities[side]
        historical = [
            _view(
                profile_view(side),
                entity,
                {**_fields(side, columns.profile[side]), snapshot_field(side): Int64},
                folder,
                f"Features of a {side} as known at the snapshot.",
                online=False,
            )
        ]
        if columns.interactions.get(side):
            historical.append(
                _view(
                    interactions_view(side),
                    entity,
                    _fields(side, columns.interactions[side]),
                    folder,
                    f"Aggregates of the events of a {side} until the snapshot.",
                    online=False,
                )
            )
        newest = _view(
            account_view(side),
            entity,
            {columns_field(side): String},
            folder,
            f"Newest features and aggregates of a {side}, as one JSON text.",
        )
        embedding = _view(
            embedding_view(side),
            entity,
            {vector_field(side): Array(Float32), computed_field(side): Float64, model_field(side): String},
            folder,
            f"What the encoder of a model makes of a {side} and its neighborhood.",
            tags={"width": str(columns.embedding_width), "model_version": columns.newest_model},
        )
        views += [*historical, newest, embedding]
        services.append(feast.FeatureService(name=training_service(side), features=historical))
        services += [
            feast.FeatureService(
                name=decision_service(side, version), features=[embedding], tags={"model_version": version}
            )
            for version in columns.model_versions
        ]
    views.append(
        _view(
            PRICE_VIEW,
            entities["campaign"],
            PRICE_FIELDS,
            folder,
            "The newest price record of a campaign; the immutable price store holds them all.",
        )
    )
    return [*entities.values(), *views, *services]


def build_folder(folder: Path) -> list[Any]:
    """The objects of a Feast repository folder, from the description in it."""
    return build(read_columns(folder), folder)


def _fields(side: Side, names: tuple[str, ...]) -> dict[str, Any]:
    return {feast_name(side, name): String if name.startswith("c_") else Float64 for name in names}


def _view(
    name: str,
    entity: Any,
    fields: dict[str, Any],
    folder: Path,
    description: str,
    *,
    online: bool = True,
    tags: dict[str, str] | None = None,
) -> Any:
    return feast.FeatureView(
        name=name,
        entities=[entity],
        schema=[
            feast.Field(name=entity.join_key, dtype=String),
            *(feast.Field(name=feature, dtype=dtype) for feature, dtype in fields.items()),
        ],
        source=FileSource(name=f"{name}_file", path=str(source_file(folder, name)), timestamp_field=EVENT_TIME),
        ttl=None,
        online=online,
        description=description,
        tags=tags or {},
    )
