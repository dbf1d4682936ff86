"""Integrity of the files of a model: digests written with it and checked on reading."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadowprice.campaign import Campaign
from shadowprice.checks import require
from shadowprice.errors import NotFound
from shadowprice.files import sha256
from shadowprice.responses.layers.heads import FILE
from shadowprice.responses.layers.own import FILE as ENCODERS
from shadowprice.responses.layers.tower import FILE as TOWERS

OFFERS = "level_offers"
"""Key of ``model.json``: side → identifiers of the offers of its levels, where these are numbers and not amounts."""


def file_digests(folder: Path) -> dict[str, str]:
    """File name → SHA-256 of the files that decide: what ``model.json`` keeps under ``files``."""
    present = [name for name in (FILE, TOWERS, ENCODERS) if name == FILE or (folder / name).exists()]
    return {name: sha256(folder / name) for name in present}


def check_files(folder: Path, expected: Any) -> None:
    """Check the files of :func:`file_digests` against the digests in ``expected``.

    Raises:
        InvalidInput: one was changed, or ``expected`` lacks its digest.
        NotFound: one is missing.
    """
    has_digests = isinstance(expected, Mapping)
    require(has_digests, str(folder / "model.json"), "tells no digests of the model's files under 'files'")
    if not (folder / FILE).exists():
        raise NotFound(f"no {FILE} in {folder}; train a model first")
    actual = file_digests(folder)
    for name in expected:
        if name not in actual:
            raise NotFound(f"no {name} in {folder}; copy the whole model again")
    for name, digest in actual.items():
        same = expected.get(name) == digest
        require(same, str(folder / name), "is not the file that model.json was written with")


def check_offers(campaign: Campaign, meta: Mapping[str, Any]) -> None:
    """Check that the offers of a campaign are those that the model of a manifest has learned.

    Raises:
        InvalidInput: a side whose levels are numbers of offers has others, or the same in another order.
    """
    for side, terms in campaign.sides.items():
        known = tuple(meta.get(OFFERS, {}).get(side, ()))
        other = f"the model's offers of side {side!r} are {list(known)}, the campaign's {list(terms.offers)}"
        require(not terms.amounts or known == terms.offers, "model", f"{other}; train a model on these offers")
