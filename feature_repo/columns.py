"""Feature columns of a data set: the description that every Feast object is built from."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import MODEL_VERSION, SIDES, Side
from shadowprice.documents import parse_json, read_document
from shadowprice.errors import InvalidInput, Unavailable

logger = logging.getLogger(__name__)

FEATURES_FILE = "features.json"
SCHEMA_VERSION = 1
SNAPSHOT = "snapshot_at"
"""Key of the time of the profile, in unix seconds, among the newest columns of an account."""

_PROFILE = re.compile(r"[xc]_\w+")
_INTERACTIONS = re.compile(r"h_\w+")


@dataclass(frozen=True, kw_only=True)
class FeatureColumns:
    """The columns of one data set.

    profile          side → x_* and c_* columns of its accounts; a side that is absent is not in here
    interactions     side → h_* columns of its interaction aggregates
    embedding_width  length D of an embedding
    model_versions   models whose embeddings are served, oldest first
    """

    profile: Mapping[Side, tuple[str, ...]]
    interactions: Mapping[Side, tuple[str, ...]] = field(default_factory=dict)
    embedding_width: int = 64
    model_versions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, pattern in (("profile", _PROFILE), ("interactions", _INTERACTIONS)):
            listed: Mapping[Side, Iterable[str]] = getattr(self, name)
            tidy: dict[Side, tuple[str, ...]] = {side: tuple(listed[side]) for side in SIDES if side in listed}
            if set(listed) - set(SIDES):
                raise InvalidInput(f"sides must be among {SIDES}, got {sorted(listed)}", field=name)
            for side, columns in tidy.items():
                _check_names(columns, pattern, f"{name}.{side}")
            object.__setattr__(self, name, tidy)
        if not self.profile:
            raise InvalidInput("at least one side is needed", field="profile")
        if set(self.interactions) - set(self.profile):
            raise InvalidInput("a side needs a profile before it has interactions", field="interactions")
        if self.embedding_width < 1:
            raise InvalidInput("must be at least 1", field="embedding_width")
        for version in self.model_versions:
            if not re.fullmatch(MODEL_VERSION, version):
                raise InvalidInput(f"{version!r}: use letters, digits, '.', '_' and '-'", field="model_versions")
        object.__setattr__(self, "model_versions", tuple(dict.fromkeys(self.model_versions)))

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that have accounts."""
        return tuple(self.profile)

    @property
    def newest_model(self) -> str:
        """The model registered last; empty when there is none."""
        return self.model_versions[-1] if self.model_versions else ""

    def with_model(self, model_version: str) -> FeatureColumns:
        """Return the columns with one more model served (moved to the end when it was there)."""
        others = tuple(version for version in self.model_versions if version != model_version)
        return replace(self, model_versions=(*others, model_version))

    def to_json(self) -> str:
        """JSON text; :meth:`from_json` is the inverse."""
        body = {
            "schema_version": SCHEMA_VERSION,
            "profile": self.profile,
            "interactions": self.interactions,
            "embedding_width": self.embedding_width,
            "model_versions": self.model_versions,
        }
        return json.dumps(body, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FeatureColumns:
        """Parse and check. Raises :class:`InvalidInput` for anything that is not a sound description."""
        try:
            body: dict[str, Any] = parse_json(text)
            if body.pop("schema_version") != SCHEMA_VERSION:
                raise InvalidInput(f"must be {SCHEMA_VERSION}", field="schema_version")
            body["model_versions"] = tuple(body["model_versions"])
            return cls(**body)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"not a description of features: {error}", field=FEATURES_FILE) from error


class Profiles(NamedTuple):
    """Newest features of n accounts in the online store.

    columns      column → n values; None where the store has none
    snapshot_at  float64 (n,), unix seconds of each profile; NaN where the store has no profile
    """

    columns: dict[str, list[Any]]
    snapshot_at: NDArray[np.float64]

    @classmethod
    def of(cls, texts: Sequence[str | None], names: Sequence[str]) -> Self:
        """Columns of some names from what the online store holds of n accounts.

        Platforms write there too: what is not as it should be counts as unknown, and a warning says so once.
        """
        held = [_object(text) for text in texts]
        at = [_fitting(SNAPSHOT, row.get(SNAPSHOT)) for row in held]
        return cls(
            {name: [_fitting(name, row.get(name)) for row in held] for name in names},
            np.array([np.nan if moment is None else moment for moment in at], dtype=np.float64),
        )


def _object(text: str | None) -> dict[str, Any]:
    """The JSON object in a text; empty where there is none."""
    if text is None:
        return {}
    try:
        parsed = parse_json(text)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    _warn("an account's columns are no JSON object")
    return {}


def _fitting(name: str, value: Any) -> float | str | None:
    """The text of c_…, else the number; None where the value is neither."""
    if value is None:
        return None
    if name.startswith("c_"):
        if isinstance(value, str):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    _warn(f"{name} of an account is no {'text' if name.startswith('c_') else 'number'}")
    return None


@cache
def _warn(reason: str) -> None:
    logger.warning("online store: %s; it counts as unknown", reason)


Frames = pd.DataFrame | Iterable[pd.DataFrame]
"""A table, or its parts in order."""


def parts_of(frames: Frames) -> Iterable[pd.DataFrame]:
    """Return the parts of a table; a frame is one part."""
    return [frames] if isinstance(frames, pd.DataFrame) else frames


def describe(
    account: Frames,
    interactions: Frames | None = None,
    *,
    embedding_width: int = 64,
    model_versions: Sequence[str] = (),
) -> FeatureColumns:
    """The description of an account table and, where there are any, its interaction aggregates.

    A column belongs to the sides that have a value in it. O(rows × columns).
    """
    return FeatureColumns(
        profile=_columns_by_side(account, ("x_", "c_")),
        interactions={} if interactions is None else _columns_by_side(interactions, ("h_",)),
        embedding_width=embedding_width,
        model_versions=tuple(model_versions),
    )


def read_columns(folder: Path) -> FeatureColumns:
    """The description kept in a Feast repository folder.

    Raises:
        Unavailable: there is none, or it is damaged.
    """
    path = folder / FEATURES_FILE
    try:
        return FeatureColumns.from_json(read_document(path).decode())
    except (OSError, ValueError, InvalidInput) as error:
        mend = "`shadowprice job featurize` makes it"
        if path.exists():
            mend = "remove it, then run `shadowprice job featurize` and `shadowprice job register`"
        raise Unavailable(f"{path}: cannot be read ({error}); {mend}") from error


def feast_name(side: Side, column: str) -> str:
    """Name of a column inside Feast: unique across the views because it starts with the side.

    Feast's point-in-time join drops every column whose name ends in ``_y``, so such a name gets an
    underscore more; and one that ends in ``_y_`` too, so that no two columns share a name.
    """
    name = f"{side}_{column}"
    return f"{name}_" if re.search(r"_y_*$", name) else name


def _columns_by_side(frames: Frames, prefixes: tuple[str, ...]) -> dict[Side, tuple[str, ...]]:
    every: dict[str, None] = {}
    filled: dict[Side, set[str]] = {}
    for part in parts_of(frames):
        candidates = [column for column in part.columns if column.startswith(prefixes)]
        every |= dict.fromkeys(candidates)
        for side in SIDES:
            rows = part.loc[part["side"] == side, candidates]
            if len(rows):
                filled_names = filled.setdefault(side, set())
                filled_names |= {
                    column for column in candidates if column not in filled_names and rows[column].notna().any()
                }
    return {side: tuple(column for column in every if column in filled[side]) for side in SIDES if side in filled}


def _check_names(columns: tuple[str, ...], pattern: re.Pattern[str], field: str) -> None:
    wrong = [column for column in columns if not pattern.fullmatch(column)]
    if wrong:
        raise InvalidInput(f"{wrong[0]!r} does not look like {pattern.pattern}", field=field)
    folded = [column.casefold() for column in columns]
    twice = sorted({column for column in columns if folded.count(column.casefold()) > 1})
    if twice:
        # DuckDB, which reads the files, does not tell letter case apart in column names.
        raise InvalidInput(f"names must differ in more than letter case: {', '.join(twice)}", field=field)
