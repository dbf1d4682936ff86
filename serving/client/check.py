"""``python -m serving.client.check``: check that a deployed campaign is ready, decides and has a fresh price."""

import json
import sys
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from serving.client.client import DecisionClient, LedgerClient, Outcome
from serving.http.tokens import Tokens
from serving.protocol import UNRECORDED_REASONS
from serving.settings import Settings, setting
from shadowprice.campaign import Side
from shadowprice.errors import Unavailable

SOURCE = "deployment-check"


@dataclass(frozen=True)
class Found:
    """Answer of a healthy campaign; the incentive in minor units."""

    campaign: str
    reason: str
    incentive: int
    price_version: int
    price_age_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.campaign}: {self.reason}, incentive {self.incentive}, "
            f"price version {self.price_version}, {self.price_age_seconds:.0f} s old"
        )


def check(
    campaign: str,
    predictor_url: str,
    ledger_url: str,
    side: str,
    max_price_age_seconds: float,
    token_file: Path | None = None,
) -> Found:
    """Decide for an unknown account and partner, return the authorized money, and return the answer.

    Raises:
        ShadowpriceError: a service does not answer or asks for another token, or the active price is too old.
    """
    token = Tokens(token_file).secret("decide") if token_file else None
    request = f"{SOURCE}-{uuid.uuid4().hex}"
    with DecisionClient(predictor_url, campaign, token) as predictor, LedgerClient(ledger_url, campaign) as ledger:
        answer = predictor.decide([request], [SOURCE], [side], [SOURCE])
        if answer.reason[0] not in UNRECORDED_REASONS:
            ledger.settle([_nothing(request, side)], SOURCE)
    age = answer.price_age_seconds
    if age > max_price_age_seconds:
        raise Unavailable(f"the active price is {age:.0f} s old, over {max_price_age_seconds:.0f}")
    return Found(campaign, answer.reason[0], int(answer.incentive[0]), answer.active_price_version, age)


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings, program="serving.client.check"):
    """Check a deployed campaign."""

    campaign: str = setting("name of the campaign")
    predictor_url: str = setting("address of the predictor")
    ledger_url: str = setting("address of the ledger")
    side: Side = setting("side to decide for", "customer")
    max_price_age_seconds: float = setting("an older price is an error", 7200.0)
    token_file: Path | None = setting("file with the predictor's bearer token; empty: none", None)
    json: bool = setting("print the result as JSON", False)


def _check(given: CheckSettings) -> int:
    values = asdict(given)
    as_json = values.pop("json")
    answer = check(**values)
    print(json.dumps(asdict(answer)) if as_json else answer)
    return 0


def _nothing(request: str, side: str) -> Outcome:
    now = datetime.now(UTC)
    if side == "customer":
        return Outcome(request_id=request, cost=0, observed_at=now, redeemed=False)
    return Outcome(request_id=request, cost=0, observed_at=now, response=0.0)


main = CheckSettings.main_of(_check, failure="not well")

if __name__ == "__main__":
    sys.exit(main())
