"""Explanations of decisions: the curve, the prices and the scores behind each, without asking the ledger."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from serving.predictor.active import Active
from serving.predictor.wanted import Wanted
from serving.protocol import Reason, Requests
from shadowprice.campaign import Campaign, Side
from shadowprice.campaign.session import SESSION
from shadowprice.currency import Currency
from shadowprice.decision import NOTHING

WORDS: Mapping[Reason, str] = {
    "optimal": "the level with the largest value less price times cost",
    "tie": "two levels are worth the same at this price; the request id decides between them",
    "explored": "drawn from the allowed levels by the campaign's weights, whatever the account's curve says",
    "cold_start": "the account has no embedding; its own features stand for it, or the mean of all accounts",
    "stale_price": "the price is older than the campaign allows; it still decides",
    "holdout": "the arm of the account gets the lowest level",
    "ineligible": "a rule allows no level for the account",
    "outside_window": "the campaign does not run at this time",
    "budget_exhausted": "the incentive does not fit a remaining budget",
    "capped": "the incentive does not fit a cap",
}
"""Reason → what it means. The last two come from the ledger, which an explanation does not ask."""


def explained(
    campaign: Campaign, active: Active, requests: Requests, side: Side, wanted: Wanted
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield row and explanation of each request of one side that may be given something."""
    terms, choices, decision = campaign.terms(side), wanted.decided.choices, wanted.decided.decision
    score, allowed = choices.scores(active.price.of(campaign.priced)), decision.policy.allowed
    cost = terms.cost(wanted.curves.response, wanted.curves.amounts)
    shares, reasons = decision.policy.propensities(), wanted.decided.reasons.tolist()
    names, sessions = terms.names(Currency.of(campaign.currency)), requests.context.get(SESSION)
    for column, row in enumerate(wanted.rows):
        ranked = [int(level) for level in np.argsort(-score[:, column], kind="stable") if allowed[level, column]]
        best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
        chosen = int(decision.level[column])
        at = float(wanted.embeddings.computed_at[column])
        session = None if sessions is None else sessions[row]
        yield (
            row,
            {
                "request_id": requests.request_id[row],
                "account_id": requests.account_id[row],
                "side": side,
                "arm": str(wanted.decided.treated.arm[column]),
                "reason": reasons[column],
                "reason_text": WORDS[reasons[column]],
                "level": chosen,
                "offer_id": campaign.offer_ids[side][chosen],
                "incentive": int(terms.incentives[chosen]),
                "best_level": best,
                "runner_up": second,
                "margin": None if second is None else float(score[best, column] - score[second, column]),
                "features_at": None if math.isnan(at) else datetime.fromtimestamp(at, UTC).isoformat(),
                "behaviors": None if session is None else len(session),
                "levels": [
                    {
                        "level": level,
                        "offer_id": campaign.offer_ids[side][level],
                        "name": names[level],
                        "incentive": int(terms.incentives[level]),
                        "response": float(wanted.curves.response[level, column]),
                        "value": float(choices.value[level, column]),
                        "expected_cost": float(cost[level, column]),
                        "score": float(score[level, column]),
                        "allowed": bool(allowed[level, column]),
                        "propensity": float(shares[level, column]),
                    }
                    for level in range(len(score))
                ],
            },
        )


def unexplained(requests: Requests, row: int, reason: Reason, level: int = NOTHING) -> dict[str, Any]:
    """Return the explanation of a request that nothing is decided for."""
    return {
        "request_id": requests.request_id[row],
        "account_id": requests.account_id[row],
        "side": requests.side[row],
        "reason": reason,
        "reason_text": WORDS[reason],
        "level": level,
        "incentive": 0,
        "levels": [],
    }
