"""``python -m serving.client.check``: is a deployed campaign ready, does it decide, is its price young enough."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from serving.client.client import DecisionClient, LedgerClient, Outcome
from serving.http.tokens import Tokens
from serving.protocol import UNRECORDED_REASONS
from serving.settings import add_setting
from shadowprice.errors import ShadowpriceError, Unavailable

SOURCE = "deployment-check"


def check(
    campaign: str, predictor_url: str, ledger_url: str, side: str, max_price_age_seconds: float, token_file: str = ""
) -> str:
    """Decide for an account nobody knows, give the money back, and say what was answered.

    Raises:
        ShadowpriceError: a service does not answer or asks for another token, or the active price is too old.
    """
    token = Tokens(Path(token_file)).secret("decide") if token_file else None
    request = f"{SOURCE}-{uuid.uuid4().hex}"
    with DecisionClient(predictor_url, campaign, token) as predictor, LedgerClient(ledger_url) as ledger:
        answer = predictor.decide([request], [SOURCE], [side])
        if answer.reason[0] not in UNRECORDED_REASONS:
            ledger.settle([_nothing(request, side)], SOURCE)
    age = answer.price_age_seconds
    if age > max_price_age_seconds:
        raise Unavailable(f"the active price is {age:.0f} s old, over {max_price_age_seconds:.0f}")
    return (
        f"{campaign}: {answer.reason[0]}, incentive {answer.incentive[0]}, "
        f"price version {answer.active_price_version}, {age:.0f} s old"
    )


def main() -> int:
    """Command line: 0 when all is well, 1 with the reason when not."""
    parser = argparse.ArgumentParser(prog="python -m serving.client.check", description="Check a deployed campaign.")
    parser.add_argument("--campaign", required=True)
    parser.add_argument("--predictor-url", required=True)
    parser.add_argument("--ledger-url", required=True)
    parser.add_argument("--side", default="customer", choices=["customer", "merchant"])
    parser.add_argument("--max-price-age-seconds", type=float, default=7200.0)
    add_setting(parser, os.environ, "token-file", "file with the predictor's bearer token; empty: none", default="")
    try:
        print(check(**vars(parser.parse_args())))
    except ShadowpriceError as error:
        print(f"not well: {error}", file=sys.stderr)
        return 1
    return 0


def _nothing(request: str, side: str) -> Outcome:
    now = datetime.now(UTC)
    if side == "customer":
        return Outcome(request_id=request, cost=0, observed_at=now, redeemed=False)
    return Outcome(request_id=request, cost=0, observed_at=now, response=0.0)


if __name__ == "__main__":
    sys.exit(main())
