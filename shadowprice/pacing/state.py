"""What a solve is based on: the spend, the requests to come, and who has been asking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.pacing.spend import SpendReport

Remaining = Mapping[Side, NDArray[np.float64]]
"""side → (slots,), requests expected in the rest of the slot in progress and in each later one."""


@dataclass(frozen=True, eq=False)
class PricingState:
    """Everything a solve needs besides campaign and model.

    at         hours since the window opened; negative before it
    spend      totals so far
    remaining  side → float64 (slots,), requests expected in the rest of this slot and each later one
    accounts   side → str (n,), accounts of recent requests, as often as each asked
    """

    at: float
    spend: SpendReport
    remaining: Mapping[Side, NDArray[np.float64]]
    accounts: Mapping[Side, NDArray[np.str_]]

    def save(self, path: Path) -> None:
        """Write as JSON, atomically; :meth:`load` is the inverse."""
        body = {
            "at": self.at,
            "spend": {
                "spent": self.spend.spent,
                "responses": dict(self.spend.responses),
                "requests": dict(self.spend.requests),
                "outstanding": dict(self.spend.outstanding),
                "refunded": self.spend.refunded,
                "late": self.spend.late,
                "observed_at": self.spend.observed_at.isoformat(),
            },
            "remaining": {side: expected.tolist() for side, expected in self.remaining.items()},
            "accounts": {side: accounts.tolist() for side, accounts in self.accounts.items()},
        }
        write_whole(path, json.dumps(body))

    @classmethod
    def load(cls, path: Path) -> PricingState:
        """Read what :meth:`save` wrote. Raises :class:`InvalidInput` for anything else."""
        try:
            body = json.loads(path.read_text())
            spend = body["spend"]
            return cls(
                at=float(body["at"]),
                spend=SpendReport(
                    spent=int(spend["spent"]),
                    responses=spend["responses"],
                    requests=spend["requests"],
                    outstanding=spend["outstanding"],
                    refunded=int(spend.get("refunded", 0)),
                    late=int(spend.get("late", 0)),
                    observed_at=datetime.fromisoformat(spend["observed_at"]),
                ),
                remaining={
                    side: np.asarray(expected, dtype=np.float64) for side, expected in body["remaining"].items()
                },
                accounts={side: np.asarray(accounts, dtype=str) for side, accounts in body["accounts"].items()},
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"is not the state of a campaign: {error!r}", field=str(path)) from error
