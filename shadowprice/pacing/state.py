"""Input of a solve: the spend, the requests to come, and the accounts that asked recently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.documents import read_document
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.pacing.spend import SpendReport
from shadowprice.storage import from_json, to_json

Remaining = Mapping[Side, NDArray[np.float64]]
"""side → (slots,), requests expected in the rest of the slot in progress and in each later one."""


@dataclass(frozen=True, eq=False)
class PricingState:
    """Input of a solve besides campaign and model.

    at         hours since the window opened; negative before it
    spend      totals so far
    remaining  side → float64 (slots,), requests expected in the rest of this slot and each later one
    accounts   side → str (n,), accounts of the newest requests of the window, as often as each asked
    partners   side → str (n,), partner of each of these requests; empty where it has none
    contexts   side → str (n,), context of each of these requests as a JSON object; empty where it has none
    """

    at: float
    spend: SpendReport
    remaining: Mapping[Side, NDArray[np.float64]]
    accounts: Mapping[Side, NDArray[np.str_]]
    partners: Mapping[Side, NDArray[np.str_]] = field(default_factory=dict)
    contexts: Mapping[Side, NDArray[np.str_]] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write as JSON, atomically; :meth:`load` is the inverse."""
        write_whole(path, to_json(self))

    @classmethod
    def load(cls, path: Path) -> PricingState:
        """Read what :meth:`save` wrote. Raises :class:`InvalidInput` for anything else."""
        try:
            return from_json(cls, read_document(path))
        except (OSError, ValueError, TypeError, InvalidInput) as error:
            raise InvalidInput(f"is not the state of a campaign: {error}", field=str(path)) from error
