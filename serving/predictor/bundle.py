"""The trained model as the service reads it: heads in numpy, and a version."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shadowprice.campaign import MODEL_VERSION, Campaign, Side
from shadowprice.curves import AMOUNT
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.responses.integrity import check_files, check_offers
from shadowprice.responses.layers.heads import Head, load_heads
from shadowprice.responses.layers.own import ServedEncoder, load_encoders
from shadowprice.responses.layers.tower import Tower, load_towers

VERSIONS = "models"
"""Folder of the immutable models, one per version, beside the pointer to the newest."""


@dataclass(frozen=True)
class Bundle:
    """Response heads, request towers and encoders of own features by side, and the version they were trained as."""

    heads: Mapping[Side, Head]
    model_version: str
    towers: Mapping[Side, Tower] = field(default_factory=dict)
    encoders: Mapping[Side, ServedEncoder] = field(default_factory=dict)


def read_version(folder: Path) -> str:
    """The version that ``model.json`` of a bundle names.

    Raises:
        InvalidInput: the file is missing, damaged, or names none.
    """
    return _read_meta(folder)[0]


def find_bundle(pointer: Path, version: str) -> Path:
    """The folder of a version: ``models/<version>`` beside ``pointer``, or what ``pointer`` leads to.

    Raises:
        NotFound: it is in neither.
        InvalidInput: the file that should tell the version is damaged.
    """
    # Resolved once: what the pointer led to stays, even if the pointer moves while files are read.
    current = pointer.resolve()
    beside = pointer.parent / VERSIONS / version
    for folder in (beside, current):
        if (folder / "model.json").exists() and read_version(folder) == version:
            return folder
    raise NotFound(f"no model {version!r} in {beside.parent}, nor is it the one in {pointer}")


def load_bundle(folder: Path, campaign: Campaign) -> Bundle:
    """Read ``model.json`` and ``heads.safetensors`` and make sure that they are whole and fit the campaign.

    Raises:
        InvalidInput: a file is missing or damaged, the heads are not those that ``model.json`` was
            written with, or they do not fit (:func:`check_heads`, :func:`check_offers`).
        NotFound: there are no heads.
    """
    version, meta = _read_meta(folder)
    check_files(folder, meta.get("files"))
    check_offers(campaign, meta)
    heads = load_heads(folder)
    check_heads(campaign, heads)
    return Bundle(heads, version, load_towers(folder), load_encoders(folder))


def _read_meta(folder: Path) -> tuple[str, Mapping[str, Any]]:
    path = folder / "model.json"
    try:
        meta = read_json(path)
        version = meta["model_version"]
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"holds no model_version: {error!r}", field=str(path)) from error
    if not isinstance(version, str) or not re.fullmatch(MODEL_VERSION, version):
        raise InvalidInput(f"{version!r}: use letters, digits, '.', '_' and '-'", field=f"{path}: model_version")
    return version, meta


def check_heads(campaign: Campaign, heads: Mapping[Side, Head]) -> None:
    """Make sure that the heads fit the campaign.

    Raises:
        InvalidInput: a side without a head, other levels than the campaign's, or a head that does
            not give finite responses or lacks a second outcome that is limited.
    """
    for side, terms in campaign.sides.items():
        if side not in heads:
            raise InvalidInput(f"the model has no head for side {side!r}; it has {sorted(heads)}", field="model")
        head = heads[side]
        if tuple(head.levels.tolist()) != terms.levels:
            raise InvalidInput(
                f"the model's levels of side {side!r} are {head.levels.tolist()}, the campaign's {list(terms.levels)}",
                field="model",
            )
        if any(terms.percent) and head.amounts(head.default_embedding[None]) is None:
            raise InvalidInput(
                f"the model knows no amounts of orders, which the percentages of side {side!r} need; train it again on "
                "outcomes with amounts",
                field="model",
            )
        for limit in campaign.group_budgets:
            if limit.outcome:
                limit.expected_outcome(side, (head.levels.size, 1), head.guards)
        if not np.isfinite(head.response(head.default_embedding[None])).all():
            raise InvalidInput(f"the head of side {side!r} gives responses that are not finite", field="model")
        if terms.worth == AMOUNT and head.amounts(head.default_embedding[None]) is None:
            raise InvalidInput(f"the model has learned no amounts of side {side!r}, which are its worth", field="model")
