"""A canary: a model that decides for a small share of the units beside the served model, before it may replace it.

The module needs numpy only, because predictor and jobs call the same functions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.arms import CANARY, WHOLE, Treatment, places
from shadowprice.campaign import MODEL_VERSION
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole

FILE = "canary.json"
"""File of the canary in a workspace; there is none while a single model decides."""

PRICES = "_canary"
"""Folder of the canary's prices in the price store; no campaign has this name."""

TAKE = b"canary"
"""Purpose that separates the hash of the canary from those that assign arms, explore and break ties."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A model on trial.

    campaign       that it decides for
    model_version  of the model
    incumbent      version of the model that decides for everybody else
    stage          number of its stage, from 0 on
    share          basis points of the units that it decides for
    since          when the stage began, UTC
    prices         of the budgets, value per minor unit: the incumbent's when the canary began; they weigh the cost

    Each unit has a fixed place in [0, 10,000) that depends on the model's version; the canary takes the places below
    its share. A unit that it decides for therefore stays with it while the share grows.
    """

    campaign: str
    model_version: str
    incumbent: str
    stage: int
    share: int
    since: datetime
    prices: Mapping[str, float]

    def __post_init__(self) -> None:
        for name in ("model_version", "incumbent"):
            if not re.fullmatch(MODEL_VERSION, str(getattr(self, name))):
                raise InvalidInput(f"is not a version: {getattr(self, name)!r}", field=f"canary.{name}")
        if not isinstance(self.share, int) or not 0 <= self.share <= WHOLE:
            raise InvalidInput(f"must be basis points from 0 to {WHOLE}, got {self.share!r}", field="canary.share")
        if self.since.tzinfo is None:
            raise InvalidInput("must carry a time zone", field="canary.since")

    @property
    def promoted(self) -> bool:
        """Return whether it decides for everybody, past its last stage: each stage leaves units to the incumbent."""
        return self.share == WHOLE

    def takes(self, units: Sequence[str]) -> NDArray[np.bool_]:
        """Bool (N,): the units that the canary decides for; never one without a name. O(N)."""
        key = hashlib.blake2b(f"{self.campaign}/{self.model_version}".encode(), digest_size=32).digest()
        return (places(units, key, TAKE) < self.share) & np.array([bool(unit) for unit in units], dtype=np.bool_)

    def treats(self, treated: Treatment, units: Sequence[str]) -> Treatment:
        """Return the treatment of N requests with the arm ``canary`` where the canary decides.

        It decides in arms of kind ``policy`` and for units without an arm; holdouts and exploring arms stay.
        """
        eligible = ~treated.held & (treated.exploration < 1.0)
        arm = np.where(eligible & self.takes(units), CANARY, treated.arm)
        return Treatment(arm, treated.held, treated.exploration)

    def write(self, workspace: Path) -> None:
        """Write the canary's file in a workspace, whole or not at all."""
        write_whole(workspace / FILE, json.dumps(asdict(self) | {"since": self.since.isoformat()}, indent=1))

    @classmethod
    def read(cls, workspace: Path, campaign: str) -> Canary | None:
        """Read the canary of a campaign; None where a single model decides.

        Raises:
            InvalidInput: the file is damaged, or is of another campaign.
        """
        file = workspace / FILE
        try:
            content = read_json(file)
            canary = cls(**content | {"since": datetime.fromisoformat(content["since"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"is not a canary: {error}", field=str(file)) from error
        if canary.campaign != campaign:
            raise InvalidInput(f"is of campaign {canary.campaign!r}, not {campaign!r}", field=str(file))
        return canary
