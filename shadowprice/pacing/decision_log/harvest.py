"""Served decisions and their final outcomes as canonical rows to train on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from shadowprice.campaign import Campaign
from shadowprice.campaign.session import SESSION
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.pacing.decision_log.segments import RowKind
from shadowprice.pacing.decision_log.served import (
    EXPOSED,
    FLAG,
    WHOLE,
    ServedLog,
    exposure_and_outcome,
    final,
    of_treatable,
)
from shadowprice.tables.schema import PHASES

UNITS = 1_000_000
"""Share count before that stands for a merchant's past: the log holds the ratio, which is then exact to a millionth."""

READ: Mapping[RowKind, tuple[str, ...]] = {
    **EXPOSED,
    "decisions": (*EXPOSED["decisions"], "incentive", "partner_id", "context", "arm"),
}
"""Columns of the log that a harvest reads."""


@dataclass(frozen=True, eq=False)
class Harvest:
    """Rows of the canonical tables.

    exposure, outcome  of each request whose outcome is final
    behaviour          carts and orders in the sessions of these requests, rows of the table; none where they have none
    held               requests of accounts in the holdout of the company, which are left out
    open               requests whose outcome can still come
    nothing            requests that were given nothing at all
    """

    exposure: pd.DataFrame
    outcome: pd.DataFrame
    behaviour: pd.DataFrame
    held: int
    open: int
    nothing: int


def harvest(log: ServedLog, campaign: Campaign, offer: pd.DataFrame, hours: float) -> Harvest:
    """Return the served rows of a campaign.

    An outcome is final ``hours`` after its decision, by the newest record of the log. A request without one by then did
    not respond: it has a row with response 0 and cost 0.

    The propensity is that of the answer under the arm of the request, so a holdout's is 1. Context of the request is in
    columns ``x_…`` and ``c_…``, its session in the table of behaviors. The log holds a merchant's response as a ratio:
    its counts are that ratio of 1,000,000.

    Args:
        log: of the campaign.
        campaign: that was served.
        offer: canonical table; where the campaign names no offers, that of a level is the one of its side with that
            face value.
        hours: age at which an outcome is final.

    Raises:
        InvalidInput: an incentive that no offer, or more than one, of its side has; or responses without the amount
            that their worth is.
        InvalidTable: no decisions, or a side that the campaign does not have.

    O(rows of the log).
    """
    if log.decisions.empty:
        raise InvalidTable("has no decisions", field="log")
    every, log = len(log.decisions), of_treatable(log, campaign)
    rows, reported = exposure_and_outcome(log, campaign)
    held = every - len(log.decisions)
    decisions = log.decisions.set_index("request_id")
    nothing = len(log.decisions) - len(rows)
    if rows.empty:
        return Harvest(rows, reported, _behaviour(rows, {}), held, 0, nothing)
    mature = final(log, rows["decided_at"], hours)
    exposure = rows[mature].reset_index(drop=True)
    kept = decisions.loc[exposure["request_id"]].reset_index()
    unnamed = ~exposure["side"].isin([side for side, terms in campaign.sides.items() if terms.offers]).to_numpy()
    if unnamed.any():
        exposure.loc[unnamed, "offer_id"] = _offers(kept[unnamed], offer).to_numpy()
    exposure["partner_id"] = kept["partner_id"].where(kept["partner_id"] != "", None)
    read = [json.loads(text) if text else {} for text in kept["context"]]
    sessions = {row: session for row, context in enumerate(read) if (session := context.pop(SESSION, None))}
    behaviour = _behaviour(exposure, sessions)
    exposure = exposure.assign(**_context(read))
    outcome = _outcomes(exposure, log, reported, hours)
    _check_amounts(exposure, outcome, campaign)
    # Of a log without amounts the rows have no column of them, as before there were any.
    outcome = outcome.drop(columns=AMOUNT) if outcome[AMOUNT].isna().all() else outcome
    return Harvest(exposure, outcome, behaviour, held, int((~mature).sum()), nothing)


def _check_amounts(exposure: pd.DataFrame, outcome: pd.DataFrame, campaign: Campaign) -> None:
    unread = campaign.long_term is not None and AMOUNT not in campaign.long_term.early
    left = {"customer"} if unread else set[str]()
    sides = [side for side, terms in campaign.sides.items() if terms.worth == AMOUNT and side not in left]
    responded = exposure["side"].isin(sides) & (outcome[["redeemed", "share_count"]] > 0).fillna(False).any(axis=1)
    without = outcome.loc[responded & ~(outcome[AMOUNT] > 0).fillna(False), "request_id"]
    if len(without):
        raise InvalidInput(
            f"is missing for {len(without):,} of {int(responded.sum()):,} final responses, first of request "
            f"{without.iloc[0]!r}: the worth of a response is its amount. Report `amount` with each outcome, minor "
            "units before the discount, of a merchant those of all its payments, and send the missing ones as "
            "corrections of kind reversal",
            field="log.outcomes.amount",
        )


def _offers(decisions: pd.DataFrame, offer: pd.DataFrame) -> pd.Series:
    """Offer of each decision, by side and incentive."""
    ids: dict[tuple[str, int], str] = {}
    for side, value, name in zip(offer["side"], offer["face_value"], offer["offer_id"], strict=True):
        if (side, int(value)) in ids:
            raise InvalidInput(
                f"{ids[side, int(value)]!r} and {name!r} of side {side!r} both have {value} minor units: a served "
                "incentive does not tell which was given",
                field="offer.face_value",
            )
        ids[side, int(value)] = str(name)
    wanted = list(zip(decisions["side"], decisions["incentive"], strict=True))
    missing = sorted({pair for pair in wanted if pair not in ids})
    if missing:
        side, value = missing[0]
        raise InvalidInput(f"no offer of side {side!r} has {value} minor units, which was served", field="offer")
    return pd.Series([ids[pair] for pair in wanted], dtype=object)


def _behaviour(exposure: pd.DataFrame, sessions: Mapping[int, Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Rows of the table of behaviors: what each request, by its row, had in its session, at its decision at the latest.

    A caller's clock may be ahead of the ledger's.
    """
    names = ("session_id", "item_id", "action", "ts", "category", "brand", "price_level")
    rows = [
        {"session_id": exposure["request_id"].iloc[row], **behavior}
        for row, session in sessions.items()
        for behavior in session
    ]
    table = pd.DataFrame(rows, columns=names).assign(phase=PHASES[0])
    decided = table["session_id"].map(exposure.set_index("request_id")["decided_at"])
    at = pd.to_datetime(table["ts"], utc=True, format="ISO8601").astype("datetime64[us, UTC]")
    return table.assign(ts=at.where(at <= decided, decided), price_level=table["price_level"].astype(WHOLE))


def _context(read: Sequence[Mapping[str, Any]]) -> dict[str, pd.Series]:
    """Columns of the context values of the requests."""
    names = sorted({name for context in read for name in context})
    return {
        name: pd.Series([context.get(name) for context in read], dtype=np.float64 if name.startswith("x_") else object)
        for name in names
    }


def _outcomes(exposure: pd.DataFrame, log: ServedLog, reported: pd.DataFrame, hours: float) -> pd.DataFrame:
    """One final outcome of each exposure: as reported and corrected, or none."""
    known = reported.set_index("request_id")
    stands = log.corrected.set_index("request_id")["response"]
    request, customer = exposure["request_id"], (exposure["side"] == "customer").to_numpy()
    ended = exposure["decided_at"] + pd.to_timedelta(hours, unit="h")
    response = request.map(stands).fillna(0.0).to_numpy(dtype=np.float64)
    whole = pd.array([pd.NA] * len(exposure), dtype=WHOLE)
    redeemed, count, before = whole.copy(), whole.copy(), whole.copy()
    redeemed[customer] = (response[customer] > 0).astype(np.int64)
    count[~customer] = np.round(response[~customer] * UNITS).astype(np.int64)
    before[~customer] = UNITS
    return pd.DataFrame(
        {
            "request_id": request,
            "observed_at": request.map(known["observed_at"]).fillna(ended),
            "mature": pd.array([True] * len(exposure), dtype=FLAG),
            "cost_paid": request.map(known["cost_paid"]).fillna(0).astype(WHOLE),
            "redeemed": redeemed,
            AMOUNT: request.map(known[AMOUNT]).astype(WHOLE),
            "share_count": count,
            "share_count_before": before,
        }
    )
